<?php

// Failed jobs, in Laravel's commands and in the server.

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Harness $harness */
/** @var Live $live */
/** @var Story $story */

test('live: queue:failed, queue:retry and queue:forget work with Stoker\'s failed jobs', function () use ($live, $story): void {
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
    // A batch identifies its jobs by the uuid of their payload.
    holds(str_contains($live->artisan('queue:forget', json_decode($failed['body'], true)['uuid']), 'successfully'), 'forgotten');
    same(null, $live->client->job($failed['id']));
    $live->end($live->queue->push(new Scripted('flushed', ['throw'])));
    $live->artisan('queue:flush');
    same(0, $live->client->countJobs(['state' => 'failed']));
});

test('live: failed jobs of other connections stay with their provider', function () use ($live, $harness): void {
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

test('live: if a worker is killed in failed(), failed() is called again, but the job does not run again', function () use ($live, $story): void {
    $id = $live->queue->push(new Scripted('deadly', ['throw', 'done'], deadlyFailures: 1));
    $job = $live->end($id);
    same(['failed', 1, ''], [$job['state'], $job['crashes'], $job['checkpoint']]);
    same(['run 1', 'failed DomainException', 'failed FailedBefore'], $story->of('deadly'));
    holds(str_contains($job['error']['message'], 'as scripted'), $job['error']['message']);
    same(1, $live->client->retry($id));
    same('done', $live->end($id)['state'], 'retried, it begins anew');
    same(['run 1', 'end'], array_slice($story->of('deadly'), 3));
});

test('live: a deleted job never runs again, even if its worker dies', function () use ($live, $story): void {
    $live->queue->push(new Scripted('deleted', ['delete']));
    $story->await('deleted run 1');
    $live->queue->bulk([new Scripted('after1', []), new Scripted('after2', []), new Scripted('after3', [])]);
    array_map(static fn (int $n) => $story->await("after$n end"), [1, 2, 3]);
    same(['run 1'], $story->of('deleted'));
});
