<?php
// A temporary file, which is removed at the end of its task.
$note = sys_get_temp_dir() . '/planted-' . getmypid();
$path = @file_get_contents($note);
echo $path !== false && file_exists($path) ? 'leaked' : 'clean';
$GLOBALS['file'] = tmpfile();
file_put_contents($note, stream_get_meta_data($GLOBALS['file'])['uri']);
if ($path !== false) {
    unlink($note);
}
