<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Console\Events\CommandFinished;
use Illuminate\Console\Events\CommandStarting;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Queue\Events\Looping;
use Illuminate\Queue\Failed\CountableFailedJobProvider;
use Illuminate\Queue\Failed\FailedJobProviderInterface;
use Illuminate\Queue\Failed\NullFailedJobProvider;
use Illuminate\Queue\QueueManager;
use Stoker\Client;

/**
 * Registers the driver `stoker` for config/queue.php, and makes Stoker's failed jobs available to queue:failed,
 * queue:retry and related commands.
 */
final class ServiceProvider extends \Illuminate\Support\ServiceProvider
{
    public function register(): void
    {
        // The queue manager is a deferred service: it is not built in a request that queues nothing.
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->extend('stoker', static fn () => new Connector());
        });

        $this->app->extend('queue.failer', static function (FailedJobProviderInterface $failer, Application $app): FailedJobProviderInterface {
            [$clients, $connections] = self::clients($app);
            if ($clients === []) {
                return $failer;
            }
            if ($app['config']['queue.failed.driver'] === 'stoker') {
                $failer = new NullFailedJobProvider(); // All failed jobs are in Stoker.
            }

            return interface_exists(CountableFailedJobProvider::class)
                ? new CountableFailedJobs($failer, $clients, $connections)
                : new FailedJobs($failer, $clients, $connections);
        });
    }

    public function boot(): void
    {
        $events = $this->app->make('events');
        $events->listen(Looping::class, function (Looping $event): void {
            // ResidentWorker dispatches this event too, for each job.
            if (! $this->app->bound(ResidentWorker::class)
                && $this->app['config']["queue.connections.$event->connectionName.driver"] === 'stoker') {
                Pauses::areSupported() && Pauses::disableLaravelCheck();
                $this->app->make('queue')->connection($event->connectionName)->consumer()->onLooping();
            }
        });
        $events->listen(CommandStarting::class, function (CommandStarting $event): void {
            $event->command === 'queue:work' && Consumer::forgetFailure($this->app);
        });
        $events->listen(CommandFinished::class, function (CommandFinished $event): void {
            $event->command === 'queue:work' && Consumer::throwFailure($this->app);
        });
        $events->subscribe(new Pauses($this->app));
    }

    /**
     * @return array{array<string, \Closure(): Client>, list<string>} a client of each server, by the name of the
     *                                                                first connection to it; the names of all
     *                                                                connections
     */
    private static function clients(Application $app): array
    {
        $clients = $servers = $names = [];
        foreach ($app['config']['queue.connections'] ?? [] as $name => $config) {
            if (($config['driver'] ?? null) !== 'stoker') {
                continue;
            }
            $names[] = $name;
            if (! in_array($server = Connector::address($config), $servers, true)) {
                $servers[] = $server;
                $clients[$name] = static fn (): Client => $app->make('queue')->connection($name)->client();
            }
        }

        return [$clients, $names];
    }
}
