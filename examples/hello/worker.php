<?php

// A worker: a program that Stoker starts and supervises, and that runs calls and jobs. In the root of the checkout:
//
//     stoker serve examples/hello/worker.php         starts Stoker; leave it running and open a second terminal
//     stoker call hello.greet '{"name":"Ada"}'       prints {"greeting":"Hello, Ada!"}
//     stoker push mails '{"to":"ada@example.org"}'   prints the job's id; the first terminal shows the job's output
//
// Stoker starts several of these processes. Each of them boots once and then runs one task after another. So prepare
// what every handler needs (configuration, a framework, database connections) before run().

declare(strict_types=1);

// With Composer, require vendor/autoload.php instead.
require __DIR__ . '/../../sdk/php/src/autoload.php';

use Stoker\Task;
use Stoker\Worker;

Worker::create()

    // The caller of a call waits for the answer. The handler's return value is the answer: a string is sent
    // unchanged, everything else as JSON. `idempotent` means that the call may run again if its worker dies.
    ->onCall('hello.greet', function (Task $task): array {
        $name = $task->json()['name'] ?? 'stranger';

        return ['greeting' => "Hello, $name!"];
    }, idempotent: true)

    // Callers set deadlines, and handlers can read the remaining time. Try: stoker call hello.sleep '{"ms":1500}'
    ->onCall('hello.sleep', function (Task $task): array {
        $ms = $task->json()['ms'] ?? 100;
        usleep($ms * 1000);

        return ['slept_ms' => $ms, 'left_s' => $task->remaining()];
    })

    // Supervision: this handler kills its own process, like a crash in an extension or the kernel's OOM killer. The
    // caller gets the error that the worker died, and `stoker workers` soon shows a new worker in its place.
    ->onCall('hello.die', function (Task $task): void {
        posix_kill(getmypid(), SIGKILL);
    })

    // No caller waits for a job: Stoker stores it until it has ended. Output of the handler goes to the job's log.
    ->onJob('mails', function (Task $task): void {
        $to = $task->json()['to'] ?? 'nobody';
        echo "mail to $to sent\n";
    })

    // An exception is a failed attempt. Stoker runs the job again, with a growing delay, while it has tries left. The
    // default is one try; the push or the queue's configuration can allow more: stoker push flaky --tries 3
    ->onJob('flaky', function (Task $task): string {
        if ($task->attempts() < 3) {
            throw new RuntimeException("attempt {$task->attempts()} fails, the third will not");
        }

        return 'done at the third attempt';
    })

    // A job that kills every worker that runs it. Stoker counts the deaths, and after the third one puts the job in
    // quarantine: see `stoker quarantine list`. Other jobs are not affected.
    ->onJob('poison', function (Task $task): void {
        echo "worker number " . ($task->crashes() + 1) . " to die of this job\n";
        posix_kill(getmypid(), SIGKILL);
    })

    ->run();
