<?php

// A script for calls and jobs that runs by every strategy for scripts. The payload says how it ends.

declare(strict_types=1);

[$what, $rest] = explode(' ', $GLOBALS['payload'] ?? file_get_contents(defined('STDIN') && !function_exists('stoker_payload') ? 'php://stdin' : 'php://input'), 2) + [1 => ''];
$known = static fn (string $name): ?string => $_SERVER["STOKER_$name"] ?? $_SERVER["HTTP_STOKER_$name"] ?? null;

switch ($what) {
    case 'say':
        echo $rest;
        break;
    case 'facts':
        echo implode(' ', array_map($known, ['NAME', 'ID', 'ATTEMPT', 'TRIES', 'KEY', 'META_128']));
        break;
    case 'throw':
        throw new DomainException($rest);
    case 'again': // a job; done at its second run
        if ($known('ATTEMPT') === '0') {
            http_response_code(503);
            exit(75);
        }
        echo 'attempt ', $known('ATTEMPT');
        break;
    case 'kill':
        exec('exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; kill -KILL ' . getmypid());
        sleep(1000);
        break;
    case 'sleep':
        sleep(1000);
        break;
    case 'large':
        echo str_repeat('x', (int) $rest);
        break;
    case 'status': // "422 no picture", "503/7 later": status, and seconds for Retry-After
        [$status, $text] = explode(' ', $rest, 2);
        [$status, $after] = explode('/', $status) + [1 => null];
        http_response_code((int) $status);
        if ($after !== null) {
            header("Retry-After: $after");
            $GLOBALS['fields'] = ["Retry-After: $after"]; // for a server on the command line
        }
        echo $text;
        break;
}
