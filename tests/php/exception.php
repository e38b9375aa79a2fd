<?php

// Throws an exception: an ordinary failure, which kills no worker.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

class NoSuchUser extends DomainException
{
}

Worker::create()
    ->onCall('t.run', fn (Task $task) => throw new NoSuchUser("there is no user {$task->body()}"))
    ->onCall('t.ok', fn (Task $task) => getmypid())
    ->onJob('mails', fn (Task $task) => throw new NoSuchUser('the mail has no reader'))
    ->run();
