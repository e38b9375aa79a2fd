<?php

// Actions of a job during its runs.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Live $live */
/** @var Story $story */

test('live: a job runs, and its state is done', function () use ($live, $story): void {
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

test('live: a released job runs again after its delay', function () use ($live, $story): void {
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

test('live: a job that crashes repeatedly fails, and failed() is called once', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('crash', ['kill', 'kill', 'kill', 'kill']));
    $story->await('crash failed WorkerDied');
    same('failed', $live->end($id)['state']);
    same(['run 1', 'run 1', 'failed WorkerDied'], $story->of('crash'));
});

test('live: exit() is a failed attempt', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('exit', ['exit', 'done'], tries: 2));
    $story->await('exit end');
    same('done', $live->end($id)['state']);
    same(['run 1', 'run 2', 'end'], $story->of('exit'));
});

test('live: a job gets TaskTimeout when its time is up, and the run counts as a try', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('hang', ['hang', 'hang'], tries: 2, timeout: 1));
    $story->await('hang failed TaskTimeout');
    same('failed', $live->end($id)['state']);
    same(['run 1', 'run 2', 'failed TaskTimeout'], $story->of('hang'));
});

test('live: jobs push jobs', function () use ($live, $story): void {
    $live->queue->push(new Scripted('parent', ['push child']));
    $story->await('child end');
});

test('live: a delayed job waits, and a large bulk is pushed completely', function () use ($live, $story): void {
    $start = microtime(true);
    $live->queue->later(1, new Scripted('later', []));
    $live->queue->bulk(array_map(static fn (int $n) => new Scripted("bulk$n", []), range(1, 300)));
    array_map(static fn (int $n) => $story->await("bulk$n end"), range(1, 300));
    same([], $story->of('later'));
    $story->await('later run 1');
    holds(microtime(true) - $start >= 1.0, 'not before its time');
});
