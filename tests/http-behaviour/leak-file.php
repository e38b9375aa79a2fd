<?php
// A file that stays open.
foreach (scandir('/proc/self/fd') as $fd) {
    $isLeaked = ($isLeaked ?? false) || str_ends_with((string) @readlink("/proc/self/fd/$fd"), 'leak-file.txt');
}
echo $isLeaked ? 'leaked' : 'clean';
$file = fopen(__DIR__ . '/leak-file.txt', 'r');
$cycle = new stdClass();
$cycle->self = $cycle;
$cycle->file = $file;
