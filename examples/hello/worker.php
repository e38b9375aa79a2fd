<?php

// A worker: the program that Stoker starts, watches over, and feeds with calls and jobs. From the checkout's top:
//
//     stoker serve examples/hello/worker.php         start it; leave it running and open a second terminal
//     stoker call hello.greet '{"name":"Ada"}'       prints {"greeting":"Hello, Ada!"}
//     stoker push mails '{"to":"ada@example.org"}'   prints the job's id; the first terminal shows the job's line
//
// Stoker runs several of these processes. Each boots once, here at the top, and then serves one task after the other:
// what a handler needs every time (configuration, a framework, database connections) belongs above run().

declare(strict_types=1);

// With Composer this would be vendor/autoload.php.
require __DIR__ . '/../../sdk/php/src/autoload.php';

use Stoker\Task;
use Stoker\Worker;

Worker::create()

    // A call has somebody who waits for the answer. What the handler returns is the answer: a string goes as it is,
    // anything else as JSON. Idempotent says that the call may run again if its worker dies under it.
    ->onCall('hello.greet', function (Task $task): array {
        $name = $task->json()['name'] ?? 'stranger';

        return ['greeting' => "Hello, $name!"];
    }, idempotent: true)

    // Callers set deadlines, and handlers can see what is left. Try: stoker call hello.sleep '{"ms":1500}'
    ->onCall('hello.sleep', function (Task $task): array {
        $ms = $task->json()['ms'] ?? 100;
        usleep($ms * 1000);

        return ['slept_ms' => $ms, 'left_s' => $task->remaining()];
    })

    // Supervision: this kills its own process, as a crash in an extension or the kernel short of memory would. The
    // caller is told that the worker died, and a moment later `stoker workers` shows a new one in its place.
    ->onCall('hello.die', function (Task $task): void {
        posix_kill(getmypid(), SIGKILL);
    })

    // A job has nobody who waits: Stoker keeps it until it has been done. What a handler prints is the task's log.
    ->onJob('mails', function (Task $task): void {
        $to = $task->json()['to'] ?? 'nobody';
        echo "mail to $to sent\n";
    })

    // An exception is a failed attempt. Stoker tries again, with a growing delay, as long as the job has tries left.
    // It has one, unless the push or the queue's configuration says more: stoker push flaky --tries 3
    ->onJob('flaky', function (Task $task): string {
        if ($task->attempts() < 3) {
            throw new RuntimeException("attempt {$task->attempts()} fails, the third will not");
        }

        return 'done at the third attempt';
    })

    // A job that kills whoever touches it. Stoker counts its victims, and after the third puts it in quarantine:
    // see `stoker quarantine list`. The other jobs go on meanwhile.
    ->onJob('poison', function (Task $task): void {
        echo "worker number " . ($task->crashes() + 1) . " to die of this job\n";
        posix_kill(getmypid(), SIGKILL);
    })

    ->run();
