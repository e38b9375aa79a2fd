<?php

// queue:work and pop() in processes that Stoker did not start: processes of their own, and the process of these
// tests.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Container\Container;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\Facade;
use Stoker\Laravel\Connector;
use Stoker\Laravel\StokerQueue;
use Symfony\Component\Console\Output\NullOutput;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Harness $harness */
/** @var Live $live */
/** @var Story $story */

/** Runs queue:work in this process and returns its exit code. */
$work = static fn (string $queue, string ...$options): int => $harness->app->make(Kernel::class)->call(
    'queue:work',
    ['connection' => 'live', '--queue' => $queue, '--sleep' => 0] + array_fill_keys($options, true),
    new NullOutput(),
);
/** A queue connection in the state in which a new process has it. */
$connect = static function (array $config = []) use ($harness): StokerQueue {
    $queue = (new Connector())->connect($config + ['socket' => getenv('APP_STORAGE') . '/stoker.sock']);
    $queue->setContainer($harness->app);

    return $queue->setConnectionName('live');
};
$connected = static fn (): array => array_filter($live->client->workers(), static fn (array $one): bool => $one['pool'] === 'by-hand');
$until = $live->until(...);
/**
 * Waits until a job that the pool "by-hand" started earlier would have been killed: runs a job with a longer timeout in
 * another pool until that job has failed.
 */
$outlast = static function (string $name) use ($live): void {
    same('failed', $live->end($live->queue->push(new Scripted($name, ['hang'], tries: 1, timeout: 2)))['state']);
};
/** Starts queue:work in a new process. */
$start = static function (array $arguments, array $env = []) use (&$pipes): mixed {
    return proc_open(
        [PHP_BINARY, __DIR__ . '/../support/artisan.php', 'queue:work', ...$arguments, '--sleep=0'],
        [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]],
        $pipes,
        env_vars: $env + ['STOKER_SOCKET' => getenv('APP_STORAGE') . '/stoker.sock'] + getenv(),
    );
};

test('pop: --stop-when-empty and --once work in a process that Stoker did not start', function () use ($live, $start, $connected, $until, &$pipes): void {
    foreach (['--stop-when-empty', '--once'] as $option) {
        $process = $start(['live', '--queue=@by-hand', $option]);
        // The queue exists as soon as the worker has connected.
        $until(static fn () => $connected() !== [], 'it connects');
        $id = $live->queue->push(new Scripted("connected$option", []), '', 'by-hand');
        $printed = stream_get_contents($pipes[1]);
        same(['done', 0], [$live->end($id)['state'], proc_close($process)]);
        holds(preg_match('/Processed|DONE/', $printed) === 1, $printed); // Since Laravel 9.21 it prints "DONE".
    }
});

// Issue 9, A28
test('pop: a worker paused with USR2 has no job assigned, and is not killed at its timeout', function () use ($live, $story, $start, $connected, $outlast): void {
    $process = $start(['live', '--queue=@by-hand', '--max-jobs=2']);
    $pid = proc_get_status($process)['pid'];
    $first = $live->queue->push(new Scripted('pauses', ['pause'], tries: 1), '', 'by-hand');
    same('done', $live->end($first)['state']);
    $second = $live->queue->push(new Scripted('waits', [], tries: 1), '', 'by-hand');
    $outlast('beside a paused worker');
    same(['ready', 0, []], [($job = $live->client->job($second))['state'], $job['crashes'], $story->of('waits')]);
    same([$pid], array_column($connected(), 'pid'));
    posix_kill($pid, SIGCONT);
    same(['done', 1], [($job = $live->end($second))['state'], $job['attempt']]);
    same(0, proc_close($process));
});

// Issue 9, A28
test('pop: a process that continues after queue:work has no job assigned and is not killed', function () use ($live, $story, $work, $connected, $until, $outlast): void {
    foreach (['--once', '--stop-when-empty'] as $option) {
        $live->queue->push(new Scripted("first$option", []), '', 'by-hand');
        same(0, $work('by-hand', $option));
        same(['run 1', 'end'], $story->of("first$option"));
        same($option === '--once' ? 1 : 0, count($connected()), 'connections that are left');
        $id = $live->queue->push(new Scripted("second$option", [], tries: 1), '', 'by-hand');
        $outlast("beside an idle process$option");
        same(['ready', 0], [($job = $live->client->job($id))['state'], $job['crashes']]);
        $live->reload('by-hand'); // After stop_grace, the server closes the connections of remaining workers.
        $until(static fn () => $connected() === [], 'it is let go');
        same(0, $work('by-hand', $option), 'it connects anew');
        same(['done', 1], [($job = $live->end($id))['state'], $job['attempt']]);
    }
    same(0, $work('by-hand', '--stop-when-empty'), 'ends it');
});

// Issue 9, A28
test('pop: a process can run queue:work again, also with another queue and with several', function () use ($live, $story, $work, $connected): void {
    foreach (['by-hand', 'second', 'by-hand', 'second,by-hand'] as $n => $queue) {
        $names = [];
        foreach (explode(',', $queue) as $one) {
            $live->queue->push(new Scripted($names[] = "$one-$n", []), '', $one);
        }
        same(0, $work($queue, '--stop-when-empty'));
        foreach ($names as $name) {
            same(['run 1', 'end'], $story->of($name));
        }
    }
    same([], $connected());
});

// Issue 9, A28
test('pop: a job may run queue:work itself', function () use ($live, $story, $work): void {
    $outer = $live->queue->push(new Scripted('outer', ['work by-hand', 'done'], tries: 1), '', 'by-hand');
    $inner = $live->queue->push(new Scripted('inner', []), '', 'by-hand');
    same(0, $work('by-hand', '--once'));
    same(['done', 'done'], [$live->end($outer)['state'], $live->end($inner)['state']]);
    same([['run 1', 'end'], ['run 1', 'end']], [$story->of('outer'), $story->of('inner')]);
    $work('by-hand', '--stop-when-empty');
});

// Issue 9, A28
test('pop: the jobs of several applications in one process are answered', function () use ($live, $harness, $connected, $until): void {
    $states = [];
    foreach ([1, 2, 3] as $n) {
        $app = (static fn () => require __DIR__ . '/../support/application.php')();
        try {
            $kernel = $app->make(Kernel::class);
            $id = $live->queue->push(new Scripted("application$n", []), '', 'by-hand');
            $kernel->call('queue:work', ['connection' => 'live', '--queue' => 'by-hand', '--once' => true], new NullOutput());
            $states[] = $live->end($id)['state'];
            $app->flush();
        } finally {
            Container::setInstance($harness->app);
            Facade::clearResolvedInstances();
            Facade::setFacadeApplication($harness->app);
        }
    }
    same(['done', 'done', 'done'], $states);
    unset($app, $kernel);
    gc_collect_cycles();
    // Static variables of Laravel keep references to the last application.
    $until(static fn () => count($connected()) <= 1, 'applications that are dropped leave no connection');
});

// Issue 9, A29
test('pop: a job that other code pops is answered as soon as its outcome is decided', function () use ($live, $story, $connect): void {
    $queue = $connect(['block_for' => 5]);
    $id = '';
    $pop = static function (string ...$script) use ($live, $queue, &$id): object {
        $id = $live->queue->push(new Scripted('hand' . count($script) . $script[0], $script), '', 'by-hand');
        $job = $queue->pop('by-hand');
        same($id, $job->getJobId());

        return $job;
    };
    $state = static function () use ($live, &$id): string {
        return $live->end($id)['state'];
    };
    $pop('done')->fire();
    same(['done', ['run 1', 'end']], [$state(), $story->of('hand1done')]);
    $pop('done')->delete();
    same('done', $state());
    $pop('done')->fail(new \DomainException('by hand'));
    same(['failed', 'DomainException'], [$state(), $live->client->job($id)['error']['class']]);
    $pop('release 0', 'done')->fire();
    $again = $queue->pop('by-hand');
    same([$id, 2], [$again->getJobId(), $again->attempts()]);
    $again->release(60);
    same(['retrying', 1], [$live->client->job($id)['state'], $queue->delayedSize('by-hand')]);
    $live->client->cancel($id);
    $job = $pop('throw', 'done');
    try {
        $job->fire();
        throw new \LogicException('it throws');
    } catch (\DomainException) {
        $job->release();
    }
    same($id, $queue->pop('by-hand')->getJobId());
    unset($queue, $pop); // The job has no outcome, so it waits for retry_after.
    same('retrying', $live->client->job($id)['state']);
    $live->client->cancel($id);
});

// Issue 9, A29
test('pop: with block_for = 0 a waiting job is found', function () use ($live, $connect): void {
    $ids = [];
    foreach (range(1, 20) as $n) {
        $ids[] = $live->queue->push(new Scripted("instant$n", []), '', 'by-hand');
    }
    for ($n = 0; $n < 20; $n++) {
        $queue = $connect(['block_for' => 0]); // As if in a new process.
        $job = $queue->pop('by-hand') ?? throw new \RuntimeException("job $n is not found");
        $ids = array_diff($ids, [$job->getJobId()]);
        $job->delete();
    }
    same([], $ids);
    same(null, $connect(['block_for' => 0])->pop('by-hand'));
    $id = $live->queue->push(new Scripted('released', []), '', 'by-hand');
    $queue = $connect(['block_for' => 0]);
    foreach (range(1, 10) as $attempt) {
        $job = $queue->pop('by-hand');
        same([$id, $attempt], [$job?->getJobId(), $job?->attempts()]);
        $attempt < 10 ? $job->release() : $job->delete();
    }
});

// Issue 9, A29: Laravel's own testExpiredJobsArePopped
test('pop: jobs that were due before they were pushed run in the order of their due times', function () use ($live, $connect): void {
    $queue = $connect();
    foreach ([-200, -300, -100] as $delay) {
        $ids[$delay] = $queue->later($delay, new Scripted('expired', []), '', 'by-hand');
    }
    foreach ([-300, -200, -100] as $delay) {
        $job = $queue->pop('by-hand');
        same($ids[$delay], $job?->getJobId(), "due $delay s ago");
        $job->delete();
    }
    same(0, $queue->size('by-hand'));
});

// Issue 9, A29
test('pop: size() does not count a job that has just ended', function () use ($live, $connect): void {
    $queue = $connect();
    foreach (range(1, 20) as $n) {
        $live->queue->push(new Scripted('sizes', []), '', 'by-hand');
        same(1, $queue->size('by-hand'), "round $n");
        $queue->pop('by-hand')->delete();
        same(0, $queue->size('by-hand'), "round $n");
        $live->queue->bulk([new Scripted('sizes', []), (new Scripted('sizes', []))->delay(60)], '', 'by-hand');
        same(2, $queue->clear('by-hand'));
        same(0, $queue->size('by-hand'), "round $n, after clear()");
    }
});

test('pop: a transaction that the job did not open stays open', function () use ($live, $story, $work): void {
    DB::beginTransaction();
    try {
        $live->queue->push(new Scripted('inside', ['level']), '', 'by-hand');
        same(0, $work('by-hand', '--once'));
        same(['run 1', 'level 1', 'end'], $story->of('inside'));
        same(1, DB::transactionLevel());
        $live->queue->push(new Scripted('opens', ['transaction']), '', 'by-hand');
        same(0, $work('by-hand', '--stop-when-empty'));
        same(1, DB::transactionLevel(), 'but what the job left open is rolled back');
    } finally {
        DB::rollBack(0);
    }
});

// Issue 9, A27
test('pop: queue:work without a server prints an error, and its exit code is not 0', function () use ($start, &$pipes): void {
    foreach ([['--once'], [], ['--stop-when-empty']] as $options) {
        $process = $start(['stoker', ...$options], ['STOKER_SOCKET' => '/nowhere/stoker.sock']);
        $printed = stream_get_contents($pipes[1]);
        holds(str_contains($printed, "cannot connect to Stoker at /nowhere/stoker.sock"), $printed);
        same(1, proc_close($process), $printed);
    }
});

// Issue 9, A27
test('pop: queue:work for a missing pool prints an error, and its exit code is not 0', function () use ($start, &$pipes): void {
    foreach ([['--once'], []] as $options) {
        $process = $start(['live', '--queue=@nowhere', ...$options]);
        $printed = stream_get_contents($pipes[1]);
        holds(str_contains($printed, "there is no pool 'nowhere'"), $printed);
        same(1, proc_close($process), $printed);
    }
});
