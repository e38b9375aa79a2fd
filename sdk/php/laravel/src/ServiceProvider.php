<?php

namespace Stoker\Laravel;

use Illuminate\Queue\QueueManager;

/** Makes `'driver' => 'stoker'` known to config/queue.php. */
final class ServiceProvider extends \Illuminate\Support\ServiceProvider
{
    public function register(): void
    {
        // The queue manager is a deferred service: an application that queues nothing in this request never builds it.
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->extend('stoker', static fn () => new Connector());
        });
    }
}
