<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Queue;
use Illuminate\Queue\Connectors\ConnectorInterface;

final class Connector implements ConnectorInterface
{
    public function connect(array $config): Queue
    {
        return new StokerQueue(
            $config['queue'] ?? 'default',
            self::socket($config['socket'] ?? null),
            (float) ($config['timeout'] ?? 10),
            (bool) ($config['after_commit'] ?? false),
            (float) ($config['reconnect_for'] ?? 0),
            (float) ($config['block_for'] ?? 5),
            array_key_exists('crashes', $config) ? $config['crashes'] : 2,
        );
    }

    /** Resolves a relative path against the application's base path, because web requests run in public/. */
    private static function socket(?string $configured): string
    {
        $socket = $configured ?? (getenv('STOKER_SOCKET') ?: 'stoker.sock');
        $app = Container::getInstance();

        return str_starts_with($socket, '/') || !method_exists($app, 'basePath') ? $socket : $app->basePath($socket);
    }
}
