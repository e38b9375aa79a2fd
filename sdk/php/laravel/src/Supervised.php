<?php

declare(strict_types=1);

namespace Stoker\Laravel;

use Illuminate\Contracts\Foundation\Application;
use Stoker\Inbox;

/**
 * queue:work of any other connection, started and watched by Stoker: it says HELLO, so that Stoker knows it has booted,
 * takes no jobs from it, and leaves after its present job when Stoker says to go.
 *
 * @internal
 */
final class Supervised
{
    private static ?Inbox $inbox = null;

    /** Before each look for a job. */
    public static function loops(Application $app, string $connection): void
    {
        if (self::$inbox === null) {
            if (getenv('STOKER_FD') === false) {
                return;
            }
            self::$inbox = Inbox::open([], name: "queue:work $connection");
        }
        self::$inbox->take(0);
        if (self::$inbox->isClosed()) {
            $app->make('queue.worker')->shouldQuit = true;
        }
    }
}
