<?php
// Answers a request of a site: the query says how.
function wait_at(string $gate): void
{
    file_get_contents($gate); // a FIFO, until the test has opened and closed it
}

switch ($_GET['do'] ?? '') {
    case 'stream':
        while (ob_get_level()) {
            ob_end_flush();
        }
        echo 'first';
        flush();
        wait_at($_GET['gate']);
        echo ' second';
        flush();
        echo ' third';
        break;
    case 'endless':
        register_shutdown_function(fn () => touch($_GET['over']));
        while (true) {
            echo str_repeat('z', 70000);
            flush();
        }
    case 'broken':
        echo 'first';
        while (ob_get_level()) {
            ob_end_flush();
        }
        flush();
        wait_at($_GET['gate']);
        throw new RuntimeException('in the middle');
    case 'large':
        for ($left = (int) $_GET['bytes']; $left > 0; $left -= 65536) {
            echo str_repeat('x', min($left, 65536));
        }
        break;
    case 'upload':
        echo array_sum(array_map(fn ($file) => filesize($file['tmp_name']), $_FILES)), ' ', strlen(file_get_contents('php://input'));
        break;
    case 'crash':
        posix_kill(getmypid(), SIGSEGV);
        sleep(10);
        break;
    case 'throw':
        throw new RuntimeException('out of luck');
    default:
        header('x-powered-by: me');
        echo PHP_SAPI, ' ', $_SERVER['REQUEST_URI'], ' ', json_encode(opcache_get_status(false)['opcache_enabled'] ?? null);
}
