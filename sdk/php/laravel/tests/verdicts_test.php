<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Queue\MaxAttemptsExceededException;
use Illuminate\Support\Carbon;
use Stoker\Laravel\WorkerDied;
use Stoker\TaskTimeout;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Harness $harness */

function throwing(): void
{
    Act::reset(static fn () => throw new \DomainException('no'));
}

test('a job that returns is done, and attempts() was 1', function () use ($harness): void {
    same(['done'], $harness->life(new Act()));
    same([1], Act::$runs);
    same([], $harness->failedJobs());
});

test('tries is exactly the number of runs, and failed() is called once', function () use ($harness): void {
    throwing();
    same(['retry 2', 'retry 7', 'retry 7', 'fail DomainException'], $harness->life(new Act(['tries' => 4, 'backoff' => [2, 7]])));
    same([1, 2, 3, 4], Act::$runs);
    same(1, count(Act::$failures));
    same('no', Act::$failures[0]->getMessage());
});

test('a retry has the exception as its reason', function () use ($harness): void {
    throwing();
    $verdict = $harness->run($harness->payload(new Act(['tries' => 2])));
    same([0.0, \DomainException::class], [$verdict->delay, get_debug_type($verdict->getPrevious())]);
});

test('without tries a job runs once', function () use ($harness): void {
    throwing();
    same(['fail DomainException'], $harness->life(new Act()));
    same(1, count(Act::$failures));
});

test('a failed job is logged once, with its real queue', function () use ($harness): void {
    throwing();
    $harness->run($payload = $harness->payload(new Act()), queue: 'emails');
    $rows = $harness->failedJobs();
    same(1, count($rows));
    same(['stoker', 'emails', $payload], [$rows[0]->connection, $rows[0]->queue, $rows[0]->payload]);
});

test('a job that succeeds on a retry is done', function () use ($harness): void {
    Act::reset(static fn (Act $job) => $job->attempts() < 3 ? throw new \DomainException('not yet') : null);
    same(['retry 0', 'retry 0', 'done'], $harness->life(new Act(['tries' => 5])));
    same([], Act::$failures);
});

test('release() inside handle() is a retry after that delay', function () use ($harness): void {
    Act::reset(static fn (Act $job) => $job->attempts() === 1 ? $job->release(5) : null);
    same(['retry 5', 'done'], $harness->life(new Act(['tries' => 2])));
});

test('release() accepts an interval and a date', function () use ($harness): void {
    Carbon::setTestNow(Carbon::now());
    try {
        Act::reset(static fn (Act $job) => $job->release(new \DateInterval('PT1M')));
        same(60.0, $harness->run($harness->payload(new Act()))->delay);
        Act::reset(static fn (Act $job) => $job->release(Carbon::now()->addSeconds(9)));
        same(9.0, $harness->run($harness->payload(new Act()))->delay);
    } finally {
        Carbon::setTestNow();
    }
});

test('releases count as attempts: the run after the last one is failed before its code', function () use ($harness): void {
    Act::reset(static fn (Act $job) => $job->release(1));
    same(['retry 1', 'retry 1', 'fail ' . MaxAttemptsExceededException::class], $harness->life(new Act(['tries' => 2])));
    same([1, 2], Act::$runs);
    same(1, count(Act::$failures));
});

test('$this->fail() fails the job, even if it has tries left', function () use ($harness): void {
    Act::reset(static fn (Act $job) => $job->fail(new \LogicException('hopeless')));
    same(['fail LogicException'], $harness->life(new Act(['tries' => 5])));
    same([1], Act::$runs);
    same(1, count(Act::$failures));
    same(1, count($harness->failedJobs()));
});

test('$this->fail() and an exception after it is one failure', function () use ($harness): void {
    Act::reset(static function (Act $job): void {
        $job->fail(new \LogicException('hopeless'));
        throw new \DomainException('and broken');
    });
    same(['fail LogicException'], $harness->life(new Act(['tries' => 5])));
    same(1, count(Act::$failures));
    same(1, count($harness->failedJobs()));
});

test('an exception in failed() does not change the outcome', function () use ($harness): void {
    throwing();
    Act::$failing = static fn () => throw new \RuntimeException('failed() failed');
    same(['fail DomainException'], $harness->life(new Act()));
    same(1, count(Act::$failures));
    same(1, count($harness->failedJobs()));
});

test('a job that calls $this->delete() is done', function () use ($harness): void {
    Act::reset(static fn (Act $job) => $job->delete());
    same(['done'], $harness->life(new Act()));
});

test('maxExceptions counts exceptions, not releases', function () use ($harness): void {
    Act::reset(static fn (Act $job) => $job->attempts() % 2 ? $job->release() : throw new \DomainException('no'));
    same(['retry 0', 'retry 0', 'retry 0', 'fail DomainException'], $harness->life(new Act(['tries' => 0, 'maxExceptions' => 2])));
    same(1, count(Act::$failures));
});

test('retryUntil takes precedence over tries', function () use ($harness): void {
    throwing();
    same(['retry 0', 'retry 0', 'retry 0'], $harness->life(new Act(['tries' => 1, 'retryUntil' => time() + 60]), 3));
    same(['fail ' . MaxAttemptsExceededException::class], $harness->life(new Act(['retryUntil' => time() - 1])));
    same([1, 2, 3], Act::$runs);
});

test('crashes do not count as attempts', function () use ($harness): void {
    same(null, $harness->run($harness->payload(new Act(['tries' => 1])), crashes: 1));
    same([1], Act::$runs);
});

test('a job that crashed twice fails without a third run', function () use ($harness): void {
    $verdict = $harness->run($harness->payload(new Act(['tries' => 9])), crashes: 2);
    same(WorkerDied::class, get_debug_type($verdict->getPrevious()));
    same([], Act::$runs);
    same(1, count(Act::$failures));
    holds(str_contains($harness->failedJobs()[0]->exception, '2 times'), 'the message has the number of crashes');
});

test('a timeout counts as an attempt, and fails the job with failOnTimeout', function () use ($harness): void {
    Act::reset(static fn () => throw new TaskTimeout('the task exceeded its timeout'));
    same(['retry 3', 'fail ' . TaskTimeout::class], $harness->life(new Act(['tries' => 2, 'backoff' => 3])));
    same(1, count(Act::$failures));
    same(['fail ' . TaskTimeout::class], $harness->life(new Act(['tries' => 2, 'failOnTimeout' => true])));
    same(2, count(Act::$failures));
});

test('a body that was not pushed by Laravel fails with a reason', function () use ($harness): void {
    foreach (['', 'hello', '"hello"', '7', '{"to":"me"}'] as $body) {
        holds(str_contains($harness->run($body)->getMessage(), 'not pushed by Laravel'), "\"$body\" is explained");
    }
});
