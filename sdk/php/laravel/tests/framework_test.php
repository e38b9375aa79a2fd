<?php

declare(strict_types=1);

namespace Stoker\Laravel\Tests;

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\Eloquent\ModelNotFoundException;
use Illuminate\Queue\CallQueuedClosure;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\Events\JobPopped;
use Illuminate\Queue\Events\JobPopping;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Events\JobProcessing;
use Illuminate\Queue\Events\Looping;
use Illuminate\Support\Facades\Context;
use Illuminate\Support\Facades\Log;
use Stoker\Laravel\FailedBefore;

use function Stoker\Tests\holds;
use function Stoker\Tests\same;
use function Stoker\Tests\test;

/** @var Harness $harness */

test('scoped instances last for one job', function () use ($harness): void {
    $harness->app->scoped('tests.scoped', static fn () => new \stdClass());
    $seen = [];
    Act::reset(static function () use ($harness, &$seen): void {
        $seen[] = $harness->app->make('tests.scoped');
        same(true, end($seen) === $harness->app->make('tests.scoped'));
    });
    $harness->life(new Act());
    $harness->life(new Act());
    holds($seen[0] !== $seen[1], 'the second job got an instance of its own');
});

test('the log context that a job adds is removed after it', function () use ($harness): void {
    $log = $harness->app->storagePath() . '/laravel.log';
    @unlink($log);
    Act::reset(static function (Act $job): void {
        Log::info('run ' . count(Act::$runs));
        Log::withContext(['secret' => 'of job ' . count(Act::$runs)]);
        Log::info('with context');
    });
    $harness->life(new Act());
    $harness->life(new Act());
    holds(str_contains($text = file_get_contents($log), 'of job 1'), 'the context was written');
    foreach (explode("\n", $text) as $line) {
        holds(! str_contains($line, 'run 2') || ! str_contains($line, 'secret'), "the next job is free of it: $line");
    }
});

test('a warning in a job becomes an exception, a deprecation is logged', function () use ($harness): void {
    Act::reset(static fn () => trigger_error('careful', E_USER_WARNING));
    same(['fail ErrorException'], $harness->life(new Act()));
    Act::reset(static fn () => trigger_error('old-fashioned', E_USER_DEPRECATED));
    same(['done'], $harness->life(new Act()));
    holds(str_contains(file_get_contents($harness->app->storagePath() . '/laravel.log'), 'old-fashioned'), 'it is logged');
});

test('an exception handler that throws does not change the outcome', function () use ($harness): void {
    $fails = true;
    $harness->app[ExceptionHandler::class]->reportable(static function (\DomainException $e) use (&$fails): void {
        $fails && throw new \LogicException('the handler failed');
    });
    $log = ini_set('error_log', $file = $harness->app->storagePath() . '/error.log');
    try {
        Act::reset(static fn () => throw new \DomainException('no'));
        same(['retry 0', 'fail DomainException'], $harness->life(new Act(['tries' => 2])));
        same(1, count(Act::$failures));
    } finally {
        $fails = false;
        ini_set('error_log', $log);
    }
    same(2, substr_count(file_get_contents($file), 'LogicException: the handler failed'));
});

test('the events are the same as in queue:work', function () use ($harness): void {
    $events = [];
    $listen = static function (string $class) use ($harness, &$events): void {
        $harness->app['events']->listen($class, static function (object $event) use (&$events): void {
            $events[] = class_basename($event) . ' ' . $event->job->attempts() . ' ' . $event->job->getQueue();
        });
    };
    array_map($listen, [JobProcessing::class, JobProcessed::class, JobExceptionOccurred::class, JobFailed::class]);
    Act::reset(static fn (Act $job) => throw new \DomainException('no'));
    $harness->life(new Act(['tries' => 2]));
    same([
        'JobProcessing 1 default', 'JobExceptionOccurred 1 default',
        'JobProcessing 2 default', 'JobFailed 2 default', 'JobExceptionOccurred 2 default',
    ], $events);
});

test('the events of polling are dispatched before each job', function () use ($harness): void {
    $raised = [];
    // JobPopping and JobPopped exist since Laravel 10.
    foreach ($events = array_filter([Looping::class, JobPopping::class, JobPopped::class], 'class_exists') as $class) {
        $harness->app['events']->listen($class, static function (object $event) use (&$raised): void {
            $raised[] = [$event::class, $event->connectionName];
        });
    }
    $harness->life(new Act());
    same(array_map(static fn (string $class) => [$class, 'stoker'], $events), $raised);
});

if (class_exists(Context::class)) {
    test('a job has the context of its dispatcher, and it is removed after the job', function () use ($harness): void {
        $payloads = [$harness->payload(new Act())];
        Context::add('trace', 'abc');
        array_unshift($payloads, $harness->payload(new Act()));
        Context::flush();
        $seen = [];
        Act::reset(static function () use (&$seen): void {
            $seen[] = Context::get('trace');
        });
        array_map([$harness, 'run'], $payloads);
        same(['abc', null], $seen);
    });
}

test('the job has an id, a uuid and a name', function () use ($harness): void {
    $seen = [];
    Act::reset(static function (Act $act) use (&$seen): void {
        $seen = [$act->job->getJobId(), strlen($act->job->uuid()), $act->job->resolveName(), $act->job->getConnectionName()];
    });
    $harness->life(new Act());
    same(['0192f0c1-7a3c-7bcd-8123-456789abcdef', 36, Act::class, 'stoker'], $seen);
});

test('closures run', function () use ($harness): void {
    same(['done'], $harness->life(CallQueuedClosure::create(static function (): void {
        Act::$runs[] = 77;
    })));
    same([77], Act::$runs);
});

test('encrypted jobs run', function () use ($harness): void {
    $job = new EncryptedAct();
    holds(! str_contains($harness->payload($job), 'O:'), 'the payload is not readable');
    same(['done'], $harness->life($job));
    same([1], Act::$runs);
});

test('a handler of the form Class@method that neither deletes nor releases its job gets it again', function () use ($harness): void {
    $harness->app->bind('OldHandler', static fn () => new class () {
        public function fire($job, array $data): void
        {
            Act::$runs[] = $job->attempts();
            $data['delete'] && $job->delete();
        }
    });
    $payload = static fn (bool $delete) => json_encode(['job' => 'OldHandler@fire', 'data' => ['delete' => $delete]]);
    same(90.0, $harness->run($payload(false))->delay);
    same(null, $harness->run($payload(true)));
});

test('job middleware may release', function () use ($harness): void {
    $job = new Act(['tries' => 3]);
    $job->through([new ReleasesFirst()]);
    same(['retry 4', 'done'], $harness->life($job));
    same([2], Act::$runs);
});

test('a job whose model is missing fails, or is deleted with deleteWhenMissingModels', function () use ($harness): void {
    same(['fail ' . ModelNotFoundException::class], $harness->life(new MissingModel()));
    same(['done'], $harness->life(new MissingModelDeletes()));
    same([], Act::$runs);
});

test('before failed() a checkpoint is saved, from which the next worker can continue', function () use ($harness): void {
    $payload = $harness->payload(new Act(['tries' => 3]));
    $note = "\0stoker/laravel failing\n{\"crashes\":0,\"class\":\"LogicException\",\"message\":\"why\"}\nsaved";
    $verdict = $harness->run($payload, crashes: 1, checkpoint: $note);
    same([FailedBefore::class, []], [get_debug_type($verdict->getPrevious()), Act::$runs]);
    holds(str_contains($verdict->getMessage(), 'LogicException: why'), $verdict->getMessage());
    same(1, count(Act::$failures));
    same([null, [1]], [$harness->run($payload, checkpoint: $note), Act::$runs], 'retried by hand: no worker has died since');
    same([null, [1, 1]], [$harness->run($payload, crashes: 1, checkpoint: 'mine'), Act::$runs]);
});

// Issue 9, A27: pushes of a web request, which runs in public/, must use the same socket as the workers.
test('a relative socket path is resolved against the application\'s base path', function () use ($harness): void {
    $socket = static fn (array $config) => (new \Stoker\Laravel\Connector())->connect($config)->socket;
    same(\Illuminate\Container\Container::getInstance()->basePath('run/stoker.sock'), $socket(['socket' => 'run/stoker.sock']));
    same('/run/stoker.sock', $socket(['socket' => '/run/stoker.sock']));
});

test('the address is `url` or `socket` of the connection, else that of the environment', function () use ($harness): void {
    $queue = static fn (array $config) => (new \Stoker\Laravel\Connector())->connect($config)->socket;
    $base = \Illuminate\Container\Container::getInstance()->basePath('s.sock');
    same('tls://h:1?ca=/ca.pem', $queue(['url' => 'tls://h:1?ca=/ca.pem', 'socket' => '/run/s.sock']));
    same("tcp://h:1,$base,/run/s.sock,unix:///s", $queue(['url' => 'tcp://h:1, s.sock,/run/s.sock,unix:///s']));
    same('/run/s.sock', $queue(['url' => null, 'socket' => '/run/s.sock']));
    same('/run/s.sock', $queue(['url' => '', 'socket' => '/run/s.sock']));
    $before = array_map('getenv', ['STOKER_URL' => 'STOKER_URL', 'STOKER_SOCKET' => 'STOKER_SOCKET', 'STOKER_WORKER' => 'STOKER_WORKER']);
    try {
        putenv('STOKER_WORKER');
        putenv('STOKER_URL=tcp://relay:7');
        putenv('STOKER_SOCKET=s.sock');
        same('tcp://relay:7', $queue(['url' => null]));
        putenv('STOKER_WORKER=app-1');
        same($base, $queue([]), 'in a process of Stoker, the local server comes first');
        putenv('STOKER_WORKER');
        putenv('STOKER_URL');
        same($base, $queue([]));
    } finally {
        foreach ($before as $name => $value) {
            putenv($value === false ? $name : "$name=$value");
        }
    }
});

test('pushes and workers of a connection use its address and token', function () use ($harness): void {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $queue = (new \Stoker\Laravel\Connector())->connect(['url' => 'tcp://' . stream_socket_get_name($listener, false), 'token' => 'secret', 'timeout' => 1]);
    $queue->setContainer(\Illuminate\Container\Container::getInstance());
    $queue->setConnectionName('remote');
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $pid = \Stoker\Tests\Processes::fork(static function () use ($listener, $theirs): void {
        for ($reader = null; $peer = stream_socket_accept($listener, 20);) {
            stream_set_chunk_size($peer, 65536);
            [$hello] = (new \Stoker\Wire\FrameReader())->feed((string) fread($peer, 65536));
            fwrite($theirs, json_encode(array_intersect_key(json_decode($hello->body, true), ['role' => 1, 'token' => 1])) . "\n");
            fwrite($peer, \Stoker\Wire\Frame::of(\Stoker\Wire\Type::RES, code: 16, body: 'no')->encode());
            fclose($peer);
        }
    });
    try {
        \Stoker\Tests\throws(\Stoker\PermissionDenied::class, fn () => $queue->pushRaw('{}', 'q'));
        same('{"role":"client","token":"secret"}', trim(fgets($ours)));
        putenv('STOKER_POOL=app'); // Otherwise a client asks for the pool first.
        \Stoker\Tests\throws(\Stoker\PermissionDenied::class, fn () => $queue->pop('q'));
        same('{"role":"worker","token":"secret"}', trim(fgets($ours)));
    } finally {
        putenv('STOKER_POOL');
        \Stoker\Tests\Processes::end($pid);
        \Stoker\Laravel\Consumer::forgetFailure(\Illuminate\Container\Container::getInstance());
    }
});
