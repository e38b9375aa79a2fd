<?php
// Writes to the log, and answers nevertheless.
trigger_error('watch out', E_USER_WARNING);
error_log('noted');
echo 'done';
