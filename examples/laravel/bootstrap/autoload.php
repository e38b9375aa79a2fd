<?php

// Uses Composer's autoloader if the application was installed with Composer, otherwise Debian's packages.

$composer = dirname(__DIR__) . '/vendor/autoload.php';
if (is_file($composer)) {
    require $composer;
} else {
    // Debian's Laravel classes cause deprecation notices about return types with PHP 8.2; ignore them.
    error_reporting(E_ALL & ~E_DEPRECATED);
    require 'Illuminate/autoload.php';
    require dirname(__DIR__, 3) . '/sdk/php/laravel/autoload.php';
}

spl_autoload_register(static function (string $class): void {
    foreach (['App\\' => 'app', 'Demo\\' => 'demo'] as $prefix => $folder) {
        $file = dirname(__DIR__) . "/$folder/" . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
