<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Bus\Batch;
use Illuminate\Contracts\Queue\Interruptible;
use Illuminate\Queue\Events\QueuePaused;
use Illuminate\Queue\Events\QueuesPaused;
use Illuminate\Queue\Jobs\InspectedJob;
use Illuminate\Support\Collection;
use Illuminate\Support\Facades\Bus;
use Illuminate\Support\Facades\Queue;
use Stoker\CallFailed;
use Stoker\Tests\Server;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;
use function Stoker\Tests\throws;

/** @var Harness $harness */

$binary = Server::binary();
if ($binary === null) {
    echo "There is no built stoker: the end-to-end tests are left out.\n";

    return;
}

$live = new Live($binary, $harness->app['queue']->connection('live'));
$story = $live->story;

test('live: a job runs, and the broker calls it done', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('one', ['done']));
    $story->await('one end');
    same('done', $live->end($id)['state']);
    same(['run 1', 'end'], $story->of('one'));
});

test('live: tries is exactly the number of runs, and failed() is called once', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('tries', ['throw', 'throw', 'throw', 'throw'], tries: 3));
    $story->await('tries failed DomainException');
    $job = $live->end($id);
    same(['failed', 'DomainException'], [$job['state'], $job['error']['class']]);
    holds(str_starts_with($job['error']['message'], 'as scripted'), $job['error']['message']);
    same(['run 1', 'run 2', 'run 3', 'failed DomainException'], $story->of('tries'));
    same(1, $live->client->countJobs(['state' => 'failed', 'type' => Scripted::class]));
});

test('live: a release is another run after its delay', function () use ($live, $story): void {
    $start = microtime(true);
    $id = $live->queue->push(new Scripted('release', ['release 1', 'done'], tries: 2));
    $story->await('release run 2');
    holds(microtime(true) - $start >= 1.0, 'not before its time');
    same('done', $live->end($id)['state']);
});

test('live: $this->fail() is final', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('fail', ['fail'], tries: 5));
    $story->await('fail end');
    same('failed', $live->end($id)['state']);
    same(['run 1', 'failed LogicException', 'end'], $story->of('fail'));
});

test('live: a job whose worker was killed runs again, and it is still its first attempt', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('killed', ['kill', 'done'], tries: 1));
    $story->await('killed end');
    same('done', $live->end($id)['state']);
    same(['run 1', 'run 1', 'end'], $story->of('killed'));
});

test('live: a job that ends its process again and again fails, and failed() is called once', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('exit', ['exit', 'exit', 'exit', 'exit']));
    $story->await('exit failed WorkerDied');
    same('failed', $live->end($id)['state']);
    same(['run 1', 'run 1', 'failed WorkerDied'], $story->of('exit'));
});

test('live: a job whose time is up hears of it, and its tries count', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('hang', ['hang', 'hang'], tries: 2, timeout: 1));
    $story->await('hang failed TaskTimeout');
    same('failed', $live->end($id)['state']);
    same(['run 1', 'run 2', 'failed TaskTimeout'], $story->of('hang'));
});

test('live: jobs push jobs', function () use ($live, $story): void {
    $live->queue->push(new Scripted('parent', ['push child']));
    $story->await('child end');
});

test('live: a delayed job waits, and a bulk of many comes whole', function () use ($live, $story): void {
    $start = microtime(true);
    $live->queue->later(1, new Scripted('later', []));
    $live->queue->bulk(array_map(static fn (int $n) => new Scripted("bulk$n", []), range(1, 300)));
    array_map(static fn (int $n) => $story->await("bulk$n end"), range(1, 300));
    same([], $story->of('later'));
    $story->await('later run 1');
    holds(microtime(true) - $start >= 1.0, 'not before its time');
});

test('live: queue:failed, queue:retry and queue:forget know Stoker\'s failed jobs', function () use ($live, $story): void {
    $failed = $live->end($live->queue->push(new Scripted('again', ['throw', 'done'])));
    $printed = $live->artisan('queue:failed');
    holds(str_contains($printed, $failed['id']) && str_contains($printed, Scripted::class), $printed);
    $live->artisan('queue:retry', $failed['id']);
    $story->await('again end');
    same(['run 1', 'failed DomainException', 'run 1', 'end'], $story->of('again'));
    same(null, $live->client->job($failed['id']), 'it is forgotten');
    [$retried] = [...$live->client->jobs(['key' => 'tenant of again'])];
    $retried = $live->end($retried['id']);
    $asked = static fn (array $job): array => [$job['key'], $job['priority'], $job['options']['keep_result_ms']];
    same([['tenant of again', 2, 77_000], $asked($failed)], [$asked($retried), $asked($retried)], 'what stoker() said');
    $failed = $live->end($live->queue->push(new Scripted('forgotten', ['throw'])));
    // A batch knows its jobs by the uuid of their payload.
    holds(str_contains($live->artisan('queue:forget', json_decode($failed['body'], true)['uuid']), 'successfully'), 'forgotten');
    same(null, $live->client->job($failed['id']));
    $live->end($live->queue->push(new Scripted('flushed', ['throw'])));
    $live->artisan('queue:flush');
    same(0, $live->client->countJobs(['state' => 'failed']));
});

test('live: failed jobs of other connections stay where they were', function () use ($live, $harness): void {
    $failer = $harness->app->make('queue.failer');
    $failer->log('database', 'mails', '{"uuid":"u-1","job":"X@y","data":[]}', new \DomainException('of another'));
    $failer->log('live', 'mails', '{"uuid":"u-2","job":"X@y","data":[]}', new \DomainException('of ours'));
    same([['u-1', 'database']], array_map(static fn (object $job) => [$job->id, $job->connection], $failer->all()));
    same('database', $failer->find('u-1')->connection);
    same(['u-1'], $failer->ids('mails'));
    same([1, 1, 0], [$failer->count(), $failer->count('database', 'mails'), $failer->count('live')]);
    same([true, []], [$failer->forget('u-1'), $failer->all()]);
    $id = $live->end($live->queue->push(new Scripted('counted', ['throw'])))['id'];
    same([1, 1, [$id]], [$failer->count(), $failer->count('live', 'default'), $failer->ids('default')]);
    [$row] = $failer->all();
    same(['id', 'connection', 'queue', 'payload', 'exception', 'failed_at'], array_keys((array) $row));
    holds(str_starts_with($row->exception, 'DomainException: as scripted in ') && str_contains($row->exception, '#0 '), $row->exception);
    same(0, $failer->prune(new \DateTimeImmutable('-1 hour')));
    same(1, $failer->prune(new \DateTimeImmutable('+1 hour')));
    same(null, $failer->find($id));
});

test('live: queue:prune-failed prunes Stoker\'s failed jobs by their age', function () use ($live): void {
    $id = $live->end($live->queue->push(new Scripted('pruned', ['throw'])))['id'];
    $live->artisan('queue:prune-failed', '--hours=1');
    same('failed', $live->client->job($id)['state'], 'it is younger');
    $live->artisan('queue:prune-failed', '--hours=-1');
    same([null, 0], [$live->client->job($id), $live->client->countJobs(['state' => 'failed'])]);
});

test('live: a worker killed in failed(): it is called again, and the job is not', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('deadly', ['throw', 'done'], deadlyFailures: 1));
    $job = $live->end($id);
    same(['failed', 1, ''], [$job['state'], $job['crashes'], $job['checkpoint']]);
    same(['run 1', 'failed DomainException', 'failed FailedBefore'], $story->of('deadly'));
    holds(str_contains($job['error']['message'], 'as scripted'), $job['error']['message']);
    same(1, $live->client->retry($id));
    same('done', $live->end($id)['state'], 'retried, it begins anew');
    same(['run 1', 'end'], array_slice($story->of('deadly'), 3));
});

test('live: what is deleted never runs again, even if its worker dies', function () use ($live, $story): void {
    $live->queue->push(new Scripted('deleted', ['delete']));
    $story->await('deleted run 1');
    $live->queue->bulk([new Scripted('after1', []), new Scripted('after2', []), new Scripted('after3', [])]);
    array_map(static fn (int $n) => $story->await("after$n end"), [1, 2, 3]);
    same(['run 1'], $story->of('deleted'));
});

// Nothing in PHP interrupts these three: only the broker can end them. Nobody accepts what curl connects to.
$listening = stream_socket_server('tcp://127.0.0.1:0');
$silent = stream_socket_get_name($listening, false);
$locked = new \PDO('sqlite:' . ($database = getenv('APP_STORAGE') . '/locked.sqlite'));
$locked->exec('BEGIN EXCLUSIVE');
foreach (['default', 'pop'] as $queue) {
    foreach (['curl' => " $silent", 'locked' => " $database", 'regex' => ''] as $what => $argument) {
        test("live: time is up for a $what on queue $queue", function () use ($live, $story, $queue, $what, $argument, $listening, $locked): void {
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

test('live: maxExceptions counts a worker that was ended for its time, once', function () use ($live, $story): void {
    $cases = [
        // The worker that has counted the first one dies, and the next one looks at it again.
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

test('live: an operator\'s retry runs a job whose retryUntil has passed, and gives it that time anew', function () use ($live, $story): void {
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

test('live: out of memory is a crash, and after two of them failed() is called once', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('memory', ['memory', 'memory', 'memory']));
    same('failed', $live->end($id)['state']);
    same(['run 1', 'run 1', 'failed WorkerDied'], $story->of('memory'));
});

test('live: a unique job that killed its workers lets go of its lock', function () use ($live, $story): void {
    UniqueScripted::dispatch('unique', ['kill', 'kill']);
    UniqueScripted::dispatch('unique', []);
    $story->await('unique failed WorkerDied');
    for ($until = microtime(true) + 10; $live->client->countJobs(['type' => UniqueScripted::class, 'state' => 'failed']) < 1; usleep(1000)) {
        microtime(true) < $until or throw new \RuntimeException('it has not failed');
    }
    UniqueScripted::dispatch('unique', []);
    $story->await('unique end');
    same(['run 1', 'run 1', 'failed WorkerDied', 'run 1', 'end'], $story->of('unique'));
});

test('live: a batch counts the job whose time was up', function () use ($live, $story, $silent): void {
    // SQLite refuses whoever writes the batch's row while a worker does.
    $batch = $live->held('default', static fn () => Bus::batch([
        new Scripted('batch-good', []),
        new Scripted('batch-bad', ["curl $silent"], tries: 1, timeout: 1),
    ])->allowFailures()->onConnection('live')->dispatch());
    $story->await('batch-good end');
    $story->await('batch-bad failed MaxAttemptsExceededException');
    for ($until = microtime(true) + 10; ! ($now = $batch->fresh())->finished() && $now->pendingJobs !== 1; usleep(1000)) {
        microtime(true) < $until or throw new \RuntimeException('the batch did not end');
    }
    same([2, 1, 1], [$now->totalJobs, $now->failedJobs, $now->pendingJobs], 'total, failed, pending: a failed job stays pending');
    same(1, count($now->failedJobIds));
});

test('live: chains go on, also past a worker that was killed', function () use ($live, $story): void {
    Bus::chain([new Scripted('chain1', ['kill', 'done']), new Scripted('chain2', []), (new Scripted('chain3', []))->onQueue('pop')])
        ->onConnection('live')->dispatch();
    $story->await('chain3 end');
    same(['run 1', 'end'], $story->of('chain2'));
});

// What rests on the payload, the cache or the database is the same in both ways, and is seen to be.
foreach (['default', 'pop'] as $queue) {
    test("live: a unique job is there once until it has run, on queue $queue", function () use ($live, $story, $queue): void {
        $filter = ['key' => "tenant of $queue-once"];
        $live->held($queue, static function () use ($live, $queue, $filter): void {
            UniqueScripted::dispatch("$queue-once", [])->onQueue($queue);
            UniqueScripted::dispatch("$queue-once", [])->onQueue($queue);
            same(1, $live->client->countJobs($filter));
        });
        $live->endAll($filter);
        UniqueScripted::dispatch("$queue-once", [])->onQueue($queue);
        $live->endAll($filter);
        same(['run 1', 'end', 'run 1', 'end'], $story->of("$queue-once"));
    });

    test("live: ShouldBeUniqueUntilProcessing lets the next one in as soon as it runs, on queue $queue", function () use ($live, $story, $queue): void {
        $go = getenv('APP_STORAGE') . "/go-$queue-until";
        $filter = ['key' => "tenant of $queue-until"];
        $count = static function () use ($live, $queue, $go, $filter): int {
            UniqueUntilScripted::dispatch("$queue-until", ["await $go"])->onQueue($queue);

            return $live->client->countJobs($filter);
        };
        same([1, 1], $live->held($queue, static fn (): array => [$count(), $count()]), 'while it waits');
        $story->await("$queue-until run 1");
        same(2, $count(), 'while it runs');
        touch($go);
        $live->endAll($filter);
        same(['end' => 2, 'run 1' => 2], $story->tally("$queue-until"));
    });

    test("live: a chain and a batch, on queue $queue", function () use ($live, $story, $queue): void {
        Bus::chain([new Scripted("$queue-link1", ['throw', 'done'], tries: 2), new Scripted("$queue-link2", [])])
            ->onConnection('live')->onQueue($queue)->dispatch();
        // Held and one after the other, for SQLite refuses who comes into another one's transaction.
        $batch = $live->held($queue, static fn () => Bus::batch([[new Scripted("$queue-part1", ['kill', 'done']), new Scripted("$queue-part2", [])]])
            ->then(static fn (Batch $batch) => Story::tell("$batch->name then $batch->failedJobs"))
            ->name("$queue-batch")->onConnection('live')->onQueue($queue)->dispatch());
        $story->await("$queue-batch then 0");
        $story->await("$queue-link2 end");
        same([true, 0, 0], [($now = $batch->fresh())->finished(), $now->pendingJobs, $now->failedJobs]);
        same(['run 1', 'run 2', 'end'], $story->of("$queue-link1"));
    });

    test("live: queue:retry-batch runs what has failed of a batch, and ends it, on queue $queue", function () use ($live, $story, $queue): void {
        $batch = $live->held($queue, static fn () => Bus::batch([new Scripted("$queue-mended", ['throw', 'done'])])
            ->then(static fn (Batch $batch) => Story::tell("$batch->name then"))
            ->name("$queue-retried")->allowFailures()->onConnection('live')->onQueue($queue)->dispatch());
        $live->endAll(['key' => "tenant of $queue-mended"]);
        same([1, 1, false], [($now = $batch->fresh())->pendingJobs, $now->failedJobs, $now->finished()]);
        $live->artisan('queue:retry-batch', $batch->id);
        $story->await("$queue-retried then");
        same([0, 0, true], [($now = $batch->fresh())->pendingJobs, count($now->failedJobIds), $now->finished()]);
        same(['run 1', 'failed DomainException', 'run 1', 'end'], $story->of("$queue-mended"));
    });

    test("live: an encrypted job and a closure, on queue $queue", function () use ($live, $story, $queue): void {
        $job = $live->held($queue, static fn (): array => $live->client->job(
            $live->queue->push(new EncryptedScripted("$queue-secret", []), '', $queue),
        ));
        $command = json_decode($job['body'], true)['data']['command'];
        holds(! str_contains($command, 'secret'), "not readable, $command");
        same('done', $live->end($job['id'])['state']);
        same(['run 1', 'end'], $story->of("$queue-secret"));
        dispatch(static fn () => Story::tell("$queue-closure ran"))->onConnection('live')->onQueue($queue);
        $story->await("$queue-closure ran");
    });

    test("live: maxExceptions counts no releases, on queue $queue", function () use ($live, $story, $queue): void {
        $job = (new Scripted("$queue-most", ['throw', 'release 0', 'throw', 'throw']))->with(tries: 0, maxExceptions: 2, backoff: 0);
        same('failed', $live->end($live->queue->push($job, '', $queue))['state']);
        same(['run 1', 'run 2', 'end', 'run 3', 'failed DomainException'], $story->of("$queue-most"));
    });
}

// What docs/laravel.md says under "Not there".
test('live: a job that is cancelled tells its batch nothing, cancel() ends that', function () use ($live, $story): void {
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

test('live: a job that runs hears that it is cancelled, and its failed() if that was its last try', function () use ($live, $story): void {
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

test('live: an open transaction is rolled back, and told', function () use ($live, $story): void {
    foreach (['default' => 2, 'pop' => 1] as $queue => $workers) {
        $jobs = array_map(static fn (int $n) => new Scripted("$queue-open$n", ['transaction']), range(1, $workers));
        $live->queue->bulk($jobs, '', $queue);
        array_map(static fn (int $n) => $story->await("$queue-open$n end"), range(1, $workers));
        $live->queue->bulk(array_map(static fn (int $n) => new Scripted("$queue-level$n", ['level']), range(1, 4)), '', $queue);
        foreach (range(1, 4) as $n) {
            $story->await("$queue-level$n level 0");
        }
    }
    holds(str_contains(file_get_contents(getenv('APP_STORAGE') . '/laravel.log'), 'has left a transaction of level 1 open'), 'it is in the log');
});

test('live: a lost database is a new worker', function () use ($live, $story): void {
    foreach (['default', 'pop'] as $queue) {
        same('done', $live->end($live->queue->push(new Scripted("$queue-lost", ['lost', 'done'], tries: 2), '', $queue))['state']);
        $pid = (int) substr($story->of("$queue-lost")[1], 4);
        for ($until = microtime(true) + 10; in_array($pid, array_column($live->client->workers(), 'pid'), true); usleep(1000)) {
            microtime(true) < $until or throw new \RuntimeException("the worker of $queue is still there");
        }
    }
});

test('live: queue:restart replaces the workers before their next job', function () use ($live, $story): void {
    foreach (['default' => 'app', 'pop' => 'pop'] as $queue => $pool) {
        $pid = static function (string $name) use ($live, $story, $queue): string {
            $live->end($live->queue->push(new Scripted("$queue-$name", ['pid']), '', $queue));

            return $story->of("$queue-$name")[1];
        };
        $live->end($live->queue->push(new Scripted("$queue-warm", []), '', $queue));
        // One that still boots would see the restart as one before its time.
        $boots = static fn (array $one): bool => $one['pool'] === $pool && $one['state'] === 'starting';
        for ($until = microtime(true) + 20; array_filter($live->client->workers(), $boots) !== []; usleep(1000)) {
            microtime(true) < $until or throw new \RuntimeException("$pool does not boot");
        }
        $before = array_column($live->client->workers(), 'pid');
        holds(in_array((int) substr($pid('old'), 4), $before, true), 'one of the old ones');
        sleep(1); // queue:restart writes the second, and a second one in it is none.
        $live->artisan('queue:restart');
        holds(! in_array((int) substr($pid('new'), 4), $before, true), "a new one serves $queue");
    }
});

test('live: in maintenance mode jobs wait, and lose nothing', function () use ($live, $story, $harness): void {
    $down = $harness->app->storagePath() . '/framework/down';
    is_dir(dirname($down)) || mkdir(dirname($down));
    foreach (['default', 'pop'] as $queue) {
        file_put_contents($down, '{}');
        $ids = [
            $live->queue->push(new Scripted("$queue-down1", []), '', $queue),
            $live->queue->push(new Scripted("$queue-down2", []), '', $queue),
        ];
        // Each resident worker holds one; queue:work returns the one that it was waiting for, and asks for none.
        $held = $queue === 'pop' ? 0 : 2;
        for ($until = microtime(true) + 10; $live->queue->reservedSize($queue) !== $held; usleep(1000)) {
            microtime(true) < $until or throw new \RuntimeException('not as many are held');
        }
        same([[], []], [$story->of("$queue-down1"), $story->of("$queue-down2")]);
        unlink($down);
        foreach ($ids as $id) {
            same(['done', 1], [($job = $live->end($id))['state'], $job['attempt']]);
        }
    }
});

test('live: a job held until its time is nearly over goes back, at no cost', function () use ($live, $story, $harness): void {
    $down = $harness->app->storagePath() . '/framework/down';
    is_dir(dirname($down)) || mkdir(dirname($down));
    $pids = static fn (): array => array_column($live->client->workers(), 'pid');
    file_put_contents($down, '{}');
    $id = $live->queue->push(new Scripted('held', [], tries: 1, timeout: 1));
    for ($until = microtime(true) + 20, $seen = []; array_diff($seen, $now = $pids()) === []; usleep(1000)) {
        $seen = array_merge($seen, $now);
        microtime(true) < $until or throw new \RuntimeException('no worker gave it back');
    }
    unlink($down);
    same(['done', 1, 0], [($job = $live->end($id))['state'], $job['attempt'], $job['crashes']]);
    same(['run 1', 'end'], $story->of('held'));
});

test('live: queue:pause and queue:continue reach the broker', function () use ($live, $story, $harness): void {
    // Laravel raises these events since 12.45; whatever its version is, this is what they do.
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
    test('pop: while its queues are paused a worker rests, and hears that it is to go', function () use ($live, $story): void {
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
    test('live: queue:pause --all is all of Stoker\'s queues', function () use ($live): void {
        $paused = static fn (): array => array_unique(array_column(
            array_filter($live->client->queues(), static fn (array $one) => $one['kind'] === 'jobs'),
            'paused',
        ));
        // The connection "stoker" leads to no broker by now.
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
    test('live: SIGTERM tells a job that is Interruptible', function () use ($live, $story): void {
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

test('live: in a sandbox, what a job binds ends with it', function () use ($live, $story): void {
    foreach (['sandboxed', 'pop'] as $queue) {
        $live->end($live->queue->push(new Scripted("$queue-bind1", ['bind']), '', $queue));
        $live->end($live->queue->push(new Scripted("$queue-bind2", ['bind']), '', $queue));
    }
    same(['finds false', 'finds false'], [$story->of('sandboxed-bind1')[1], $story->of('sandboxed-bind2')[1]]);
    same(['finds false', 'finds true'], [$story->of('pop-bind1')[1], $story->of('pop-bind2')[1]]);
});

test('live: clear() ends what waits, and not what runs', function () use ($live, $story): void {
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

// What follows is way one: stock queue:work, whose pop() waits for Stoker.

test('pop: a job runs, and its real queue is told', function () use ($live, $story): void {
    foreach (['pop', 'pops'] as $queue) {
        same('done', $live->end($live->queue->push(new Scripted("where-$queue", ['where']), '', $queue))['state']);
        same(['run 1', "is $queue live", 'end'], $story->of("where-$queue"));
    }
});

test('pop: tries, releases and $this->fail()', function () use ($live, $story): void {
    $ids = array_map(static fn (Scripted $job) => $live->queue->push($job, '', 'pop'), [
        new Scripted('pop-tries', ['throw', 'throw', 'throw'], tries: 2),
        new Scripted('pop-mends', ['throw', 'done'], tries: 2),
        new Scripted('pop-release', ['release 1', 'done'], tries: 2),
        new Scripted('pop-fail', ['fail'], tries: 5),
    ]);
    same(['failed', 'done', 'done', 'failed'], array_map(static fn (string $id) => $live->end($id)['state'], $ids));
    same(['run 1', 'run 2', 'failed DomainException'], $story->of('pop-tries'));
    same(['run 1', 'run 2', 'end'], $story->of('pop-mends'));
    same(['run 1', 'end', 'run 2', 'end'], $story->of('pop-release'));
    same(['run 1', 'failed LogicException', 'end'], $story->of('pop-fail'));
    same('DomainException', $live->client->job($ids[0])['error']['class']);
});

test('pop: a killed worker is no attempt, exit() in a job is told, and then it fails', function () use ($live, $story): void {
    $killed = $live->queue->push(new Scripted('pop-kill', ['kill', 'done'], tries: 1), '', 'pop');
    same(['done', 1], [($job = $live->end($killed))['state'], $job['crashes']]);
    same(['run 1', 'run 1', 'end'], $story->of('pop-kill'));
    $live->end($live->queue->push(new Scripted('pop-exit', ['exit', 'exit', 'exit']), '', 'pop'));
    same(['run 1', 'run 1', 'failed WorkerDied'], $story->of('pop-exit'));
    $words = file_get_contents(getenv('APP_STORAGE') . '/stoker.log');
    holds(str_contains($words, 'exit() or die() was called while pop ran'), 'last words');
});

test('pop: a job whose time is up hears of it', function () use ($live, $story): void {
    $live->end($live->queue->push(new Scripted('pop-hang', ['hang', 'hang'], tries: 2, timeout: 1), '', 'pop'));
    same(['run 1', 'run 2', 'failed TaskTimeout'], $story->of('pop-hang'));
});

test('TERM in the middle of a job lets it finish, and so does a reload; nothing is lost', function () use ($live, $story): void {
    foreach (['default' => 'app', 'pop' => 'pop'] as $queue => $pool) {
        foreach (['term', 'reload'] as $how) {
            $go = getenv('APP_STORAGE') . "/go-$queue-$how";
            $first = $live->queue->push(new Scripted("$queue-$how", ["await $go"]), '', $queue);
            $story->await("$queue-$how run 1");
            $next = $live->queue->push(new Scripted("$queue-$how-next", []), '', $queue);
            // By its job: the other worker may be busy with the next one.
            [$busy] = array_values(array_filter($live->client->workers(), static fn (array $one) => ($one['task']['id'] ?? null) === $first));
            if ($how === 'term') {
                posix_kill($busy['pid'], SIGTERM);
                touch($go);
            } else {
                touch($go);
                $start = microtime(true);
                $live->reload($pool);
                holds(microtime(true) - $start < 5, 'they went when they were told, not when they were killed');
            }
            same(['done', 0], [($job = $live->end($first))['state'], $job['crashes']]);
            same(['done', 0], [($job = $live->end($next))['state'], $job['crashes']]);
            same(['run 1', 'end'], $story->of("$queue-$how"));
            for ($until = microtime(true) + 5; in_array($busy['pid'], array_column($live->client->workers(), 'pid'), true); usleep(1000)) {
                microtime(true) < $until or throw new \RuntimeException("the worker of $queue did not go: $how");
            }
        }
    }
});

require __DIR__ . '/by_hand.php';

test('live: the same workers answer calls', function () use ($live): void {
    same(6, $live->client->call('tests.sum', [1, 2, 3]));
    $e = throws(CallFailed::class, static fn () => $live->client->call('tests.throw'));
    same('DomainException', $e->errorClass);
});

test('live: size() counts what waits', function () use ($live, $story): void {
    $live->client->pause('sized');
    $live->queue->bulk([new Scripted('sized1', []), new Scripted('sized2', [])], '', 'sized');
    $live->queue->laterOn('sized', 60, new Scripted('sized3', []));
    same([3, 2, 1, 0], [
        $live->queue->size('sized'), $live->queue->pendingSize('sized'),
        $live->queue->delayedSize('sized'), $live->queue->reservedSize('sized'),
    ]);
    $printed = $live->artisan('queue:monitor', 'live:sized,live:@pop', '--max=3');
    holds(preg_match('/sized.*3\D.*ALERT/', $printed) === 1 && preg_match('/@pop.*0\D.*OK/', $printed) === 1, $printed);
    if (class_exists(InspectedJob::class)) {
        $names = static fn (Collection $jobs): array => $jobs->map(static fn (InspectedJob $job) => "$job->name $job->queue")->all();
        $name = Scripted::class . ' sized';
        same([[$name, $name], [$name], []], array_map($names, [
            $live->queue->pendingJobs('sized'), $live->queue->delayedJobs('sized'), $live->queue->reservedJobs('sized'),
        ]));
        same([2, 1, 0], [$live->queue->allPendingJobs()->count(), $live->queue->allDelayedJobs()->count(), $live->queue->allReservedJobs()->count()]);
    }
    $live->client->resume('sized');
    $story->await('sized2 end');
});

test('stock: queue:work of another connection is watched, and a reload lets it finish', function () use ($live, $story, $harness): void {
    $go = getenv('APP_STORAGE') . '/go-stock';
    $database = $harness->app['queue']->connection('database');
    $database->push(new Scripted('stock1', ["await $go"]));
    $story->await('stock1 run 1');
    $worker = static fn () => array_values(array_filter($live->client->workers(), static fn (array $one) => $one['pool'] === 'stock'))[0];
    $old = $worker();
    same('ready', $old['state']);
    touch($go);
    $start = microtime(true);
    $live->reload('stock');
    holds(microtime(true) - $start < 5, 'it went when it was told, not when it was killed');
    $story->await('stock1 end');
    $database->push(new Scripted('stock2', ['pid']));
    $story->await('stock2 end');
    same([true, "pid {$worker()['pid']}"], [$worker()['pid'] !== $old['pid'], $story->of('stock2')[1]]);
});

test('stock: one that ends by itself above its memory, with code 12, is followed at once', function () use ($live, $story, $harness): void {
    $database = $harness->app['queue']->connection('database');
    $pids = [];
    foreach ([1, 2, 3] as $n) {
        $database->pushOn('heavy', new Scripted("heavy$n", ['pid']));
        $story->await("heavy$n end");
        $pids[] = $story->of("heavy$n")[1];
    }
    same(3, count(array_unique($pids)));
    $log = file_get_contents(getenv('APP_STORAGE') . '/stoker.log');
    holds(preg_match('/ info heavy-\d+ has gone \(exit code 12\)/', $log) === 1, 'that is no fault');
    holds(!preg_match('/heavy-\d+ (ended before|did not get)/', $log), 'nor a failed boot');
});

test('live: it drains, finishes what runs, and ends', function () use ($live, $story): void {
    $go = getenv('APP_STORAGE') . '/go-drain';
    $live->queue->bulk([new Scripted('drain1', ["await $go"]), new Scripted('drain2', ["await $go"])]);
    $live->queue->push(new Scripted('drain3', ["await $go"]), '', 'pop');
    array_map(static fn (int $n) => $story->await("drain$n run 1"), [1, 2, 3]);
    $live->terminate();
    touch($go);
    same(true, $live->stop());
    array_map(static fn (int $n) => same(['run 1', 'end'], $story->of("drain$n")), [1, 2, 3]);
});
