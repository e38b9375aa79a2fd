<?php

declare(strict_types=1);

// Autoloader for applications without Composer: loads the SDK and this package.
require_once dirname(__DIR__) . '/src/autoload.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Stoker\\Laravel\\')) {
        $file = __DIR__ . '/src/' . substr($class, 15) . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
