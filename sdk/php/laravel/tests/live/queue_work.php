<?php

// Stock queue:work that Stoker starts and whose pop() requests jobs from Stoker.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Live $live */
/** @var Story $story */

test('pop: a job runs, and it has the name of its queue', function () use ($live, $story): void {
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

test('pop: a killed worker does not count as an attempt, exit() in a job is reported, and then the job fails', function () use ($live, $story): void {
    $killed = $live->queue->push(new Scripted('pop-kill', ['kill', 'done'], tries: 1), '', 'pop');
    same(['done', 1], [($job = $live->end($killed))['state'], $job['crashes']]);
    same(['run 1', 'run 1', 'end'], $story->of('pop-kill'));
    $live->end($live->queue->push(new Scripted('pop-exit', ['exit', 'exit', 'exit']), '', 'pop'));
    same(['run 1', 'run 1', 'failed WorkerDied'], $story->of('pop-exit'));
    $words = file_get_contents(getenv('APP_STORAGE') . '/stoker.log');
    holds(str_contains($words, 'exit() or die() was called while pop ran'), 'last words');
});

test('pop: a job gets TaskTimeout when its time is up', function () use ($live, $story): void {
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
            // Find the worker by its job, because another worker may already run the next job.
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
            $live->until(static fn () => ! $live->hasWorker($busy['pid']), "the worker of $queue goes: $how");
        }
    }
});
