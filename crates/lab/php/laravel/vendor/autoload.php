<?php

// Debian's packages in the place of Composer's autoloader.

// They and PHP 8.2 disagree about return types; the notices do not concern this application.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
require_once 'Illuminate/autoload.php';
