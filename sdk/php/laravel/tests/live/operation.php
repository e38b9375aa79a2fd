<?php

// Actions of operators: cancel, pause, restart and maintenance mode.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Queue\Interruptible;
use Illuminate\Queue\Events\QueuePaused;
use Illuminate\Queue\Events\QueuesPaused;
use Illuminate\Support\Facades\Bus;
use Illuminate\Support\Facades\Queue;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;
use function Stoker\Tests\throws;

/** @var Harness $harness */
/** @var Live $live */
/** @var Story $story */

// Described in docs/guides/laravel.md under "Pitfalls".
test('live: cancelling a job does not change its batch, and cancel() ends the batch', function () use ($live, $story): void {
    $filter = ['key' => 'tenant of cancelled'];
    $batch = $live->held('default', static function () use ($live, $filter) {
        $batch = Bus::batch([new Scripted('cancelled', [])])->onConnection('live')->dispatch();
        same(1, $live->client->cancel($filter));

        return $batch;
    });
    same([1, false, []], [$batch->fresh()->pendingJobs, $batch->fresh()->finished(), $story->of('cancelled')]);
    Bus::findBatch($batch->id)->cancel();
    same(true, $batch->fresh()->finished());
});

test('live: a cancelled running job gets TaskTimeout, and failed() is called if it was the last try', function () use ($live, $story): void {
    foreach (['default', 'pop'] as $queue) {
        foreach ([1 => ['run 1', 'failed TaskTimeout'], 2 => ['run 1']] as $tries => $heard) {
            $id = $live->queue->push(new Scripted("$queue-stopped$tries", ['hang'], tries: $tries), '', $queue);
            $story->await("$queue-stopped$tries run 1");
            $live->client->cancel($id);
            same('cancelled', $live->end($id)['state']);
            same($heard, $story->of("$queue-stopped$tries"));
        }
    }
});

test('live: crashes at the crash_budget end in quarantine, without failed()', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('quarantined', ['memory', 'memory', 'done']), '', 'sandboxed');
    $job = $live->end($id);
    same(['failed', 'Quarantined'], [$job['state'], $job['error']['class']]);
    same(['run 1', 'run 1'], $story->of('quarantined'));
    $live->client->retry($id);
    same('done', $live->end($id)['state']);
});

test('live: an open transaction is rolled back and logged', function () use ($live, $story): void {
    foreach (['default' => 2, 'pop' => 1] as $queue => $workers) {
        $jobs = array_map(static fn (int $n) => new Scripted("$queue-open$n", ['transaction']), range(1, $workers));
        $live->queue->bulk($jobs, '', $queue);
        array_map(static fn (int $n) => $story->await("$queue-open$n end"), range(1, $workers));
        $live->queue->bulk(array_map(static fn (int $n) => new Scripted("$queue-level$n", ['level']), range(1, 4)), '', $queue);
        foreach (range(1, 4) as $n) {
            $story->await("$queue-level$n level 0");
        }
    }
    holds(str_contains(file_get_contents(getenv('APP_STORAGE') . '/laravel.log'), 'has left a transaction of level 1 open'), 'it is logged');
});

test('live: a worker that lost its database is replaced', function () use ($live, $story): void {
    foreach (['default', 'pop'] as $queue) {
        same('done', $live->end($live->queue->push(new Scripted("$queue-lost", ['lost', 'done'], tries: 2), '', $queue))['state']);
        $pid = (int) substr($story->of("$queue-lost")[1], 4);
        $live->until(static fn () => ! $live->hasWorker($pid), "the worker of $queue goes");
    }
});

test('live: queue:restart replaces the workers before their next job', function () use ($live, $story): void {
    $pools = ['default' => 'app', 'pop' => 'pop', 'spared' => 'spare', 'forked' => 'fork'] + ($live->hasHost() ? ['snapshots' => 'snapshot'] : []);
    foreach ($pools as $queue => $pool) {
        // The process that has booted: with the strategies fork and snapshot it is the parent of the one that runs the job.
        $pid = static function (string $name) use ($live, $story, $queue): string {
            $live->end($live->queue->push(new Scripted("$queue-$name", ['booted']), '', $queue));

            return $story->of("$queue-$name")[1];
        };
        $live->end($live->queue->push(new Scripted("$queue-warm", []), '', $queue));
        // A worker that is still booting would take the restart for one that happened before it started.
        $boots = static fn (array $one): bool => $one['pool'] === $pool && $one['state'] === 'starting';
        $live->until(static fn () => array_filter($live->client->workers(), $boots) === [], "$pool boots");
        $old = array_map($pid, ['old1', 'old2', 'old3']);
        holds($pool !== 'fork' && $pool !== 'snapshot' || count(array_unique($old)) === 1, "$pool boots once");
        $workers = $live->client->workers();
        sleep(1); // queue:restart stores the time in seconds, so two restarts in one second look like one.
        $live->artisan('queue:restart');
        $known = [...$old, ...array_map(static fn (array $one): string => "booted $one[pid]", $workers)];
        holds(! in_array($pid('new'), $known, true), "a process that has booted since serves $queue");
    }
});

test('live: in maintenance mode jobs wait, at no cost', function () use ($live, $story, $harness): void {
    $down = $harness->app->storagePath() . '/framework/down';
    is_dir(dirname($down)) || mkdir(dirname($down));
    foreach (['default', 'pop'] as $queue) {
        file_put_contents($down, '{}');
        $ids = [
            $live->queue->push(new Scripted("$queue-down1", []), '', $queue),
            $live->queue->push(new Scripted("$queue-down2", []), '', $queue),
        ];
        // Each resident worker keeps one job; queue:work returns the job that it was assigned and requests no other.
        $held = $queue === 'pop' ? 0 : 2;
        $live->until(static fn () => $live->queue->reservedSize($queue) === $held, 'as many are held');
        same([[], []], [$story->of("$queue-down1"), $story->of("$queue-down2")]);
        unlink($down);
        foreach ($ids as $id) {
            same(['done', 1], [($job = $live->end($id))['state'], $job['attempt']]);
        }
    }
});

test('live: a job that waits until shortly before its timeout is returned, at no cost', function () use ($live, $story, $harness): void {
    $down = $harness->app->storagePath() . '/framework/down';
    is_dir(dirname($down)) || mkdir(dirname($down));
    $pids = static fn (): array => array_column($live->client->workers(), 'pid');
    file_put_contents($down, '{}');
    $id = $live->queue->push(new Scripted('held', [], tries: 1, timeout: 1));
    $seen = [];
    $live->until(static function () use ($pids, &$seen): bool {
        $now = $pids();
        $gone = array_diff($seen, $now) !== [];
        $seen = array_merge($seen, $now);

        return $gone;
    }, 'a worker gives it back');
    unlink($down);
    same(['done', 1, 0], [($job = $live->end($id))['state'], $job['attempt'], $job['crashes']]);
    same(['run 1', 'end'], $story->of('held'));
});

test('live: queue:pause and queue:continue reach the server', function () use ($live, $story, $harness): void {
    // Laravel 12.45 and later dispatch these events. The listeners exist in every version, so test them with fake
    // events.
    $event = static fn (string $class, string $queue, ?int $ttl = null) => $harness->app['events']->dispatch(
        "Illuminate\\Queue\\Events\\$class",
        [(object) ['connection' => 'live', 'queue' => $queue, 'ttl' => $ttl]],
    );
    $paused = static fn (): array => array_keys(array_filter(array_column($live->client->queues(), 'paused', 'name')));
    $event('QueuePaused', 'sized');
    same(['sized'], $paused());
    $event('QueueResumed', 'sized');
    $event('QueuePaused', '@pop');
    same(['pop', 'pops'], $paused(), 'a pool is all its queues');
    $event('QueueResumed', '@pop');
    same([], $paused());
    throws(\InvalidArgumentException::class, static fn () => $event('QueuePaused', 'sized', 60));
});

if (class_exists(QueuePaused::class)) {
    test('pop: a worker waits while its queues are paused, and notices that it must exit', function () use ($live, $story): void {
        $live->artisan('queue:pause', 'live:@pop');
        $id = $live->queue->push(new Scripted('paused', []), '', 'pop');
        $start = microtime(true);
        $live->reload('pop');
        holds(microtime(true) - $start < 5, 'it went when it was told, not when it was killed');
        same([[], 'ready'], [$story->of('paused'), $live->client->job($id)['state']]);
        $live->artisan('queue:resume', 'live:@pop');
        same('done', $live->end($id)['state']);
    });
}

if (class_exists(QueuesPaused::class)) {
    test('live: queue:pause --all pauses all of Stoker\'s queues', function () use ($live): void {
        $paused = static fn (): array => array_unique(array_column(
            array_filter($live->client->queues(), static fn (array $one) => $one['kind'] === 'jobs'),
            'paused',
        ));
        // No server listens any more for the connection "stoker".
        $config = config('queue.connections.stoker');
        config(['queue.connections.stoker' => null]);
        Queue::pauseAll();
        same([true], $paused());
        Queue::resumeAll();
        same([false], $paused());
        config(['queue.connections.stoker' => $config]);
    });
}

if (interface_exists(Interruptible::class)) {
    test('live: a job that is Interruptible is notified of SIGTERM', function () use ($live, $story): void {
        foreach (['default', 'pop'] as $queue) {
            $id = $live->queue->push(new InterruptibleScripted("$queue-told", ['await ' . getenv('APP_STORAGE') . "/told-$queue-told"]), '', $queue);
            $story->await("$queue-told run 1");
            [$busy] = array_values(array_filter($live->client->workers(), static fn (array $one) => $one['state'] === 'busy'));
            posix_kill($busy['pid'], SIGTERM);
            same(['done', 0], [($job = $live->end($id))['state'], $job['crashes']]);
            same(['run 1', 'interrupted by 15', 'end'], $story->of("$queue-told"));
        }
    });
}

test('live: in a sandbox, bindings that a job adds are gone after it', function () use ($live, $story): void {
    foreach (['sandboxed', 'pop'] as $queue) {
        $live->end($live->queue->push(new Scripted("$queue-bind1", ['bind']), '', $queue));
        $live->end($live->queue->push(new Scripted("$queue-bind2", ['bind']), '', $queue));
    }
    same(['finds false', 'finds false'], [$story->of('sandboxed-bind1')[1], $story->of('sandboxed-bind2')[1]]);
    same(['finds false', 'finds true'], [$story->of('pop-bind1')[1], $story->of('pop-bind2')[1]]);
});

test('live: clear() cancels waiting jobs, but not running ones', function () use ($live, $story): void {
    $go = getenv('APP_STORAGE') . '/go-clear';
    $running = $live->queue->push(new Scripted('clear0', ["await $go"]), '', 'pop');
    $story->await('clear0 run 1');
    $live->queue->bulk([new Scripted('clear1', []), new Scripted('clear2', []), (new Scripted('clear3', []))->delay(60)], '', 'pop');
    same(3, $live->queue->clear('pop'));
    same([0, 0, 1], [$live->queue->pendingSize('pop'), $live->queue->delayedSize('pop'), $live->queue->reservedSize('pop')]);
    touch($go);
    same('done', $live->end($running)['state']);
    same([], $story->of('clear1'));
});
