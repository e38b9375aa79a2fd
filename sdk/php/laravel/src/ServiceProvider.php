<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Events\Looping;
use Illuminate\Queue\Failed\CountableFailedJobProvider;
use Illuminate\Queue\Failed\FailedJobProviderInterface;
use Illuminate\Queue\Failed\NullFailedJobProvider;
use Illuminate\Queue\QueueManager;
use Stoker\Client;

/**
 * Makes `'driver' => 'stoker'` known to config/queue.php, and Stoker's failed jobs to the commands queue:failed,
 * queue:retry and their kin.
 */
final class ServiceProvider extends \Illuminate\Support\ServiceProvider
{
    public function register(): void
    {
        // The queue manager is a deferred service: an application that queues nothing in this request never builds it.
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->extend('stoker', static fn () => new Connector());
        });

        $this->app->extend('queue.failer', static function (FailedJobProviderInterface $failer, Application $app): FailedJobProviderInterface {
            [$brokers, $connections] = self::brokers($app);
            if ($brokers === []) {
                return $failer;
            }
            if ($app['config']['queue.failed.driver'] === 'stoker') {
                $failer = new NullFailedJobProvider(); // There is nothing beside Stoker.
            }

            return interface_exists(CountableFailedJobProvider::class)
                ? new CountableFailedJobs($failer, $brokers, $connections)
                : new FailedJobs($failer, $brokers, $connections);
        });
    }

    public function boot(): void
    {
        $this->app->make('events')->listen(Looping::class, function (Looping $event): void {
            Supervised::loops($this->app, $event->connectionName);
        });

        // Laravel 12 and later: `queue:pause stoker:emails`. Its own workers look into the cache, Stoker does not.
        foreach (['QueuePaused' => 'pause', 'QueueResumed' => 'resume'] as $event => $do) {
            $this->app->make('events')->listen("Illuminate\\Queue\\Events\\$event", function (object $event) use ($do): void {
                $queue = $this->app->make('queue')->connection($event->connectionName ?? $event->connection ?? null);
                if (! $queue instanceof StokerQueue) {
                    return;
                }
                if (($event->ttl ?? null) !== null) {
                    throw new \InvalidArgumentException('Stoker knows no pause that ends by itself: queue:pause it without a time');
                }
                $queue->client()->$do($event->queue);
            });
        }
    }

    /**
     * @return array{array<string, \Closure(): Client>, list<string>} each broker once, by the name of the first
     *                                                                connection to it, and the names of all connections
     */
    private static function brokers(Application $app): array
    {
        $brokers = $sockets = $names = [];
        foreach ($app['config']['queue.connections'] ?? [] as $name => $config) {
            if (($config['driver'] ?? null) !== 'stoker') {
                continue;
            }
            $names[] = $name;
            if (! in_array($socket = $config['socket'] ?? '', $sockets, true)) {
                $sockets[] = $socket;
                $brokers[$name] = static fn (): Client => $app->make('queue')->connection($name)->client();
            }
        }

        return [$brokers, $names];
    }
}
