<?php

// Timeouts, limits on exceptions, and crashes.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Support\Facades\Bus;

use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Live $live */
/** @var Story $story */

// Jobs of these three kinds cannot be interrupted from PHP; only the server can end them, by killing the worker. curl
// connects to a socket that does not accept the connection.
$listening = stream_socket_server('tcp://127.0.0.1:0');
$silent = stream_socket_get_name($listening, false);
$locked = new \PDO('sqlite:' . ($database = getenv('APP_STORAGE') . '/locked.sqlite'));
$locked->exec('BEGIN EXCLUSIVE');
foreach (['default', 'pop'] as $queue) {
    foreach (['curl' => " $silent", 'locked' => " $database", 'regex' => ''] as $what => $argument) {
        test("live: a $what exceeds its timeout on queue $queue", function () use ($live, $story, $queue, $what, $argument, $listening, $locked): void {
            $script = array_fill(0, 3, "$what$argument");
            $job = $live->end($live->queue->push(new Scripted("$queue-$what", $script, tries: 2, timeout: 1), '', $queue));
            same('failed', $job['state']);
            same(['run 1', 'run 2', 'failed MaxAttemptsExceededException'], $story->of("$queue-$what"));
        });
    }
    test("live: failOnTimeout on queue $queue", function () use ($live, $story, $queue, $silent): void {
        $live->end($live->queue->push(new Scripted("$queue-final", ["curl $silent", 'done'], tries: 5, timeout: 1, failOnTimeout: true), '', $queue));
        same(['run 1', 'failed TimedOut'], $story->of("$queue-final"));
    });
}

test('live: maxExceptions counts a timeout that killed the worker once', function () use ($live, $story): void {
    $cases = [
        // The worker that counted the first timeout dies, and the next worker finds the same timeout again.
        'killed' => [['regex', 'kill', 'regex', 'done'], ['maxExceptions' => 2, 'tries' => 0], ['run 1', 'run 2', 'run 2', 'failed TimedOut']],
        'mixed' => [['throw', 'regex', 'done'], ['maxExceptions' => 2, 'tries' => 0], ['run 1', 'run 2', 'failed TimedOut']],
        'dated' => [['regex', 'done'], ['maxExceptions' => 1, 'retryUntil' => time() + 60], ['run 1', 'failed TimedOut']],
    ];
    $ids = [];
    foreach (['default', 'pop'] as $queue) {
        foreach ($cases as $name => [$script, $own]) {
            $job = (new Scripted("$queue-counted-$name", $script))->with(...$own, timeout: 1, backoff: 0);
            $ids["$queue-counted-$name"] = $live->queue->push($job, '', $queue);
        }
    }
    foreach ($ids as $name => $id) {
        same('failed', $live->end($id)['state'], $name);
        same($cases[explode('-', $name)[2]][2], $story->of($name), $name);
    }
});

test('live: an operator\'s retry runs a job whose retryUntil has passed, and the period starts again', function () use ($live, $story): void {
    $lives = [
        'late' => [[], -1, ['failed MaxAttemptsExceededException', 'run 1', 'end']],
        'dated' => [['release 4', 'throw', 'done'], 3, ['run 1', 'end', 'failed MaxAttemptsExceededException', 'run 1', 'run 2', 'end']],
        'thrown' => [['throw'], -1, ['failed MaxAttemptsExceededException', 'run 1', 'failed DomainException']],
    ];
    $ids = [];
    foreach (['default', 'pop'] as $queue) {
        foreach ($lives as $name => [$script, $seconds]) {
            $job = (new Scripted("$queue-$name", $script))->with(retryUntil: time() + $seconds, backoff: 0);
            $ids["$queue-$name"] = $live->queue->push($job, '', $queue);
        }
    }
    foreach ($ids as $name => $id) {
        same('failed', $live->end($id)['state'], $name);
        $live->client->retry($id);
    }
    foreach ($ids as $name => $id) {
        $live->end($id);
        same($lives[explode('-', $name)[1]][2], $story->of($name), $name);
    }
});

test('live: checkpoints, ack() and the tenant, in Laravel\'s own jobs', function () use ($live, $story): void {
    foreach (['default', 'pop'] as $queue) {
        $job = $live->end($live->queue->push(new Scripted("$queue-import", ['import', 'import', 'import']), '', $queue));
        same(["tenant of $queue-import", 2], [$job['key'], $job['priority']]);
        $live->end($live->queue->push(new Scripted("$queue-imported", []), '', $queue));
        same(['run 1', 'page 0', 'page 1', 'page 2', 'run 1', 'page 2'], $story->of("$queue-import"));
    }
});

test('live: exhausted memory counts as a crash, and after two of them failed() is called once', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('memory', ['memory', 'memory', 'memory']));
    same('failed', $live->end($id)['state']);
    same(['run 1', 'run 1', 'failed WorkerDied'], $story->of('memory'));
});

test('live: a unique job that crashed its workers releases its lock', function () use ($live, $story): void {
    UniqueScripted::dispatch('unique', ['kill', 'kill']);
    UniqueScripted::dispatch('unique', []);
    $story->await('unique failed WorkerDied');
    $live->endAll(['type' => UniqueScripted::class]);
    UniqueScripted::dispatch('unique', []);
    $story->await('unique end');
    same(['run 1', 'run 1', 'failed WorkerDied', 'run 1', 'end'], $story->of('unique'));
});

test('live: a batch counts a job that timed out', function () use ($live, $story, $silent): void {
    // Paused meanwhile, because SQLite rejects a write to the row of the batch while a worker writes to it.
    $batch = $live->held('default', static fn () => Bus::batch([
        new Scripted('batch-good', []),
        new Scripted('batch-bad', ["curl $silent"], tries: 1, timeout: 1),
    ])->allowFailures()->onConnection('live')->dispatch());
    $story->await('batch-good end');
    $story->await('batch-bad failed MaxAttemptsExceededException');
    $live->until(static fn () => ($now = $batch->fresh())->finished() || $now->pendingJobs === 1, 'the batch ends');
    $now = $batch->fresh();
    same([2, 1, 1], [$now->totalJobs, $now->failedJobs, $now->pendingJobs], 'total, failed, pending: a failed job stays pending');
    same(1, count($now->failedJobIds));
});

test('live: chains continue, even if a worker is killed', function () use ($live, $story): void {
    Bus::chain([new Scripted('chain1', ['kill', 'done']), new Scripted('chain2', []), (new Scripted('chain3', []))->onQueue('pop')])
        ->onConnection('live')->dispatch();
    $story->await('chain3 end');
    same(['run 1', 'end'], $story->of('chain2'));
});
