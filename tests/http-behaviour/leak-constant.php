<?php
// A constant.
echo defined('PLANTED') ? 'leaked' : 'clean';
define('PLANTED', 1);
