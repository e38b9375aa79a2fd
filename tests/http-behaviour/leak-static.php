<?php
// A static variable of a function, and the function itself.
if ($isNew = !function_exists('planted')) {
    function planted(): int
    {
        static $calls = 0;

        return ++$calls;
    }
}
echo $isNew && planted() === 1 ? 'clean' : 'leaked';
