<?php
// The environment.
echo getenv('PLANTED') !== false || isset($_ENV['PLANTED']) || isset($_SERVER['PLANTED']) ? 'leaked' : 'clean';
putenv('PLANTED=1');
$_ENV['PLANTED'] = $_SERVER['PLANTED'] = '1';
