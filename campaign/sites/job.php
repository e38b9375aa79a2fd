<?php

// Runs the jobs of campaign/sites.py under php-cgi, php-fpm and php -S. The payload says how a run ends.

declare(strict_types=1);

const JOBS = __DIR__ . '/../job-runs';

$job = json_decode(file_get_contents('php://input'));
$known = static fn (string $name): int => (int) ($_SERVER["STOKER_$name"] ?? $_SERVER["HTTP_STOKER_$name"] ?? 0);
$note = static fn (string $what) => file_put_contents(JOBS, "$job->n $what\n", FILE_APPEND | LOCK_EX);
$note('begun');
usleep($job->ms * 1000);
if (strlen($job->fill) !== $job->size) {
    http_response_code(400);
    exit('the payload is incomplete');
}
$how = $known('ATTEMPT') > 0 || $known('CRASHES') > 0 ? 'done' : $job->how;
$note($how);
switch ($how) {
    case 'refuse':
        http_response_code(422);
        break;
    case 'later':
        http_response_code(503);
        header('Retry-After: 0');
        break;
    case 'busy':
        http_response_code(429);
        break;
    case 'kill':
        // A process of php -S that was killed is not replaced, and jobs that were drawn for another strategy may get there by a reload.
        if (PHP_SAPI !== 'cli-server') {
            exec('kill -KILL ' . getmypid());
            sleep(100);
        }
        // Otherwise it fails.
    case 'fail':
        throw new DomainException('as it was told');
    default:
        echo str_repeat('x', $job->answer);
}
