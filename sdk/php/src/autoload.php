<?php

declare(strict_types=1);

// Autoloader for applications without Composer: `require 'sdk/php/src/autoload.php';`.
require_once __DIR__ . '/functions.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Stoker\\')) {
        $file = __DIR__ . '/' . strtr(substr($class, 7), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
