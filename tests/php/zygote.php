<?php

// Boots once and is forked: each method shows what the forked processes share.

declare(strict_types=1);

use Stoker\Task;
use Stoker\Worker;

require __DIR__ . '/../../sdk/php/src/autoload.php';

$zygote = getmypid();
$tasks = 0;
$forked = 0;
$files = 0;
// Without new seeds, all children would continue these sequences.
mt_srand(7);
mt_rand();
lcg_value();

Stoker\afterFork(function () use (&$forked, &$files): void {
    $forked = getmypid();
    $files = count(get_included_files());
});

Worker::create()
    ->onCall('t.run', function () use ($zygote, &$tasks, &$forked, &$files): array {
        return [
            'pid' => getmypid(),
            'zygote' => $zygote,
            'tasks' => ++$tasks,
            'forked' => $forked,
            'compiled' => count(get_included_files()) - $files,
            'group' => posix_getpgid(0),
            'random' => [mt_rand(), rand(), lcg_value()],
            'name' => getenv('STOKER_WORKER'),
            'inherited' => getenv('STOKER_ZYGOTE'),
        ];
    })
    ->onJob('*', static fn (): string => 'done')
    ->onCall('t.print', function (Task $task): string {
        echo "echo {$task->body()}\n";
        fwrite(STDERR, "stderr {$task->body()}\n");
        fwrite(STDOUT, "stdout {$task->body()}\n");
        system("echo program {$task->body()} >&2");

        return 'printed';
    })
    ->onCall('t.leave', function (Task $task): string {
        if ($task->body() === 'program') {
            $process = proc_open(['sleep', '1000'], [], $pipes);
            $pid = proc_get_status($process)['pid'];
            // Until it has begun the program, the new process looks like this one.
            while (file_get_contents("/proc/$pid/comm") !== "sleep\n") {
                usleep(1000);
            }

            return (string) $pid;
        }
        $pid = pcntl_fork();
        if ($pid === 0) {
            while (true) {
                sleep(1000);
            }
        }

        return (string) $pid;
    })
    ->run();
