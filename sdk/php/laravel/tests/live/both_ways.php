<?php

// Behaviour that the resident worker and queue:work share.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Bus\Batch;
use Illuminate\Support\Facades\Bus;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Live $live */
/** @var Story $story */

// Features that depend on the payload, the cache or the database work with both kinds of worker.
foreach (['default', 'pop'] as $queue) {
    test("live: a unique job is queued only once until it has run, on queue $queue", function () use ($live, $story, $queue): void {
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

    test("live: ShouldBeUniqueUntilProcessing allows the next job as soon as the first one runs, on queue $queue", function () use ($live, $story, $queue): void {
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
        // Paused meanwhile, and with jobs that run one after another, because SQLite rejects concurrent transactions.
        $batch = $live->held($queue, static fn () => Bus::batch([[new Scripted("$queue-part1", ['kill', 'done']), new Scripted("$queue-part2", [])]])
            ->then(static fn (Batch $batch) => Story::tell("$batch->name then $batch->failedJobs"))
            ->name("$queue-batch")->onConnection('live')->onQueue($queue)->dispatch());
        $story->await("$queue-batch then 0");
        $story->await("$queue-link2 end");
        same([true, 0, 0], [($now = $batch->fresh())->finished(), $now->pendingJobs, $now->failedJobs]);
        same(['run 1', 'run 2', 'end'], $story->of("$queue-link1"));
    });

    test("live: queue:retry-batch runs the failed jobs of a batch, and the batch ends, on queue $queue", function () use ($live, $story, $queue): void {
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

    test("live: maxExceptions does not count releases, on queue $queue", function () use ($live, $story, $queue): void {
        $job = (new Scripted("$queue-most", ['throw', 'release 0', 'throw', 'throw']))->with(tries: 0, maxExceptions: 2, backoff: 0);
        same('failed', $live->end($live->queue->push($job, '', $queue))['state']);
        same(['run 1', 'run 2', 'end', 'run 3', 'failed DomainException'], $story->of("$queue-most"));
    });
}
