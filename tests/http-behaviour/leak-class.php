<?php
// A static property, and the class itself.
if ($isNew = !class_exists('Planted', false)) {
    class Planted
    {
        public static int $count = 0;
    }
}
echo $isNew && Planted::$count++ === 0 ? 'clean' : 'leaked';
