<?php
// Settings.
echo ini_get('precision') === '7' || error_reporting() === 1 || ini_get('memory_limit') === '77M' ? 'leaked' : 'clean';
ini_set('precision', '7');
ini_set('memory_limit', '77M');
error_reporting(1);
