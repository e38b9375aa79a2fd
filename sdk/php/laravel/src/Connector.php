<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Queue;
use Illuminate\Queue\Connectors\ConnectorInterface;
use Stoker\Internal\Address;

final class Connector implements ConnectorInterface
{
    public function connect(array $config): Queue
    {
        return new StokerQueue(
            $config['queue'] ?? 'default',
            self::address($config) ?? self::resolve((string) (getenv(Address::variable() ?? 'STOKER_SOCKET') ?: 'stoker.sock')),
            (float) ($config['timeout'] ?? 10),
            (bool) ($config['after_commit'] ?? false),
            (float) ($config['reconnect_for'] ?? 0),
            (float) ($config['block_for'] ?? 5),
            array_key_exists('crashes', $config) ? $config['crashes'] : 2,
            self::token($config),
        );
    }

    /**
     * The address of the server, or several, that a connection of config/queue.php names; null if it names none.
     *
     * @param array<string, mixed> $config `url`, else `socket`, as the parameter $socket of Client::connect()
     */
    public static function address(array $config): ?string
    {
        $configured = (string) (($config['url'] ?? null) ?: ($config['socket'] ?? null));

        return $configured === '' ? null : self::resolve($configured);
    }

    /** @param array<string, mixed> $config */
    public static function token(array $config): ?string
    {
        return ($config['token'] ?? null) ?: null;
    }

    /** Resolves relative paths against the application's base path, because web requests run in public/. */
    private static function resolve(string $addresses): string
    {
        $app = Container::getInstance();
        if (! method_exists($app, 'basePath')) {
            return $addresses;
        }
        $resolved = array_map(static function (string $one) use ($app): string {
            $one = trim($one);

            return $one === '' || str_starts_with($one, '/') || str_contains($one, '://') ? $one : $app->basePath($one);
        }, explode(',', $addresses));

        return implode(',', $resolved);
    }
}
