<?php

declare(strict_types=1);

namespace Stoker\Internal;

use function strlen;

/**
 * Loads all classes of this SDK. A process that has loaded them before it forks saves each of its children from compiling
 * those that a task needs, which takes longer than a short task.
 *
 * @internal
 */
final class Preload
{
    public static function all(): void
    {
        $root = dirname(__DIR__);
        $files = new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator($root, \FilesystemIterator::SKIP_DOTS));
        foreach ($files as $file) {
            $name = substr($file->getPathname(), strlen($root) + 1);
            // Files of classes begin with a capital letter, other than functions.php.
            if (preg_match('~^[A-Z].*\.php$~D', $name)) {
                class_exists('Stoker\\' . strtr(substr($name, 0, -4), '/', '\\'));
            }
        }
    }
}
