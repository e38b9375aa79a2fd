<?php

// Tests the handler for Symfony applications with a real kernel, container and event dispatcher.

declare(strict_types=1);

namespace Stoker\Tests;

use Stoker\Http\Request;
use Stoker\Http\SymfonyHandler;
use Stoker\Internal\Http\Handler;
use Stoker\Task;
use Stoker\Wire\Codec;
use Stoker\Wire\Frame;
use Stoker\Wire\Type;

if (!stream_resolve_include_path('Symfony/Bundle/FrameworkBundle/autoload.php')) {
    echo "php-symfony-framework-bundle is not installed: the tests of Symfony's kernel are skipped.\n";

    return;
}
require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
require_once __DIR__ . '/support/SymfonyApplication.php';

/** @return array{0: string, 1: string} status line, and body */
function visit(SymfonyHandler $handler, string $path): array
{
    $task = new Task(Frame::of(Type::REQ, 0, Codec::HTTP, 3, 1, 0, 0, 'http:a.request', '', "GET http://a$path HTTP/1.1\r\nhost: a\r\n\r\n"), false, 0);
    [$head, $body] = explode("\r\n\r\n", (new Handler($handler))($task)->bytes, 2);

    return [strtok($head, "\r"), $body];
}

test('http Symfony: one kernel serves requests, is terminated after each, and its services are reset', function (): void {
    $folder = sys_get_temp_dir() . '/stoker-php-symfony-' . getmypid();
    try {
        $handler = new SymfonyHandler($kernel = new SymfonyApplication($folder));
        same(['HTTP/1.1 200 OK', 'hello 1 of /count'], visit($handler, '/count'));
        same(['handled /count', 'terminated /count', 'reset'], $kernel->events());
        same(['HTTP/1.1 200 OK', 'hello 1 of /count'], visit($handler, '/count'), 'the counter was reset');
        same(['handled /count', 'terminated /count', 'reset'], $kernel->events());
        same('HTTP/1.1 500 Internal Server Error', visit($handler, '/throw')[0]);
        same(['handled /throw', 'terminated /throw', 'reset'], $kernel->events());
        same('HTTP/1.1 404 Not Found', visit($handler, '/none')[0]);
    } finally {
        exec('rm -rf ' . escapeshellarg($folder));
    }
});

test('http Symfony: a request that the kernel never sees is reset, too', function (): void {
    $resets = 0;
    $kernel = new class () implements \Symfony\Component\HttpKernel\HttpKernelInterface {
        public function handle(\Symfony\Component\HttpFoundation\Request $request, int $type = self::MAIN_REQUEST, bool $catch = true): \Symfony\Component\HttpFoundation\Response
        {
            throw new \DomainException('no');
        }
    };
    $resetter = new class ($resets) implements \Symfony\Contracts\Service\ResetInterface {
        public function __construct(private int &$resets)
        {
        }

        public function reset(): void
        {
            $this->resets++;
        }
    };
    throws(\DomainException::class, fn () => visit(new SymfonyHandler($kernel, $resetter), '/'));
    same(1, $resets);
});
