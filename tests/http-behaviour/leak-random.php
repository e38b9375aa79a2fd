<?php
// The state of a seeded generator.
$note = sys_get_temp_dir() . '/planted-random-' . getmypid();
$next = @file_get_contents($note);
echo $next !== false && (int) $next === mt_rand() ? 'leaked' : 'clean';
mt_srand(7);
mt_rand();
$copy = [mt_rand(), mt_srand(7), mt_rand()];
file_put_contents($note, (string) $copy[0]);
if ($next !== false) {
    unlink($note);
}
