<?php
// Handlers of errors, exceptions and the end, and an autoloader.
$error = set_error_handler(fn () => true);
$exception = set_exception_handler(fn () => true);
echo $error !== null || $exception !== null || spl_autoload_functions() !== [] ? 'leaked' : 'clean';
register_shutdown_function(fn () => $GLOBALS['ends'] = true);
spl_autoload_register(fn () => null);
