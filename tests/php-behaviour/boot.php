<?php
// Boots once, in a process that is cloned for each task. The payload, or the query of a request, says what a task does.
require __DIR__ . '/../../sdk/php/src/autoload.php';

mt_rand();
lcg_value();
$boot = (object) ['pid' => getmypid(), 'clone' => null, 'tasks' => 0];
echo "booted\n";
Stoker\afterFork(function () use ($boot): void {
    $boot->clone = getmypid();
});
register_shutdown_function(function (): void {
    error_log('the shutdown function of the boot has run');
});

function know(object $boot): string
{
    return json_encode([
        'pid' => getmypid(),
        'group' => posix_getpgid(0),
        'zygote' => $boot->pid,
        'clone' => $boot->clone,
        'tasks' => ++$boot->tasks,
        'random' => [mt_rand(), lcg_value(), random_int(0, PHP_INT_MAX)],
        'worker' => getenv('STOKER_WORKER'),
        'hidden' => getenv('STOKER_ZYGOTE') === false && getenv('STOKER_FD') === false,
        'age' => microtime(true) - $_SERVER['REQUEST_TIME_FLOAT'] < 5,
        'query' => $_GET,
        'form' => $_POST,
        'cookies' => $_COOKIE,
        'uri' => $_SERVER['REQUEST_URI'] ?? null,
        'body' => file_get_contents('php://input'),
    ]);
}

stoker_handle(function (?string $payload) use ($boot): ?string {
    [$what, $argument] = explode(' ', ($payload ?? $_GET['do'] ?? 'know') . ' ', 2);
    $argument = rtrim($argument);
    switch ($what) {
        case 'know':
            return know($boot);
        case 'leak':
            require dirname(__DIR__) . "/http-behaviour/leak-$argument.php";

            return null;
        case 'throw':
            throw new DomainException('no such thing');
        case 'exit':
            exit((int) $argument);
        case 'greedy':
            ini_set('memory_limit', '16M');

            return str_repeat('x', 200 << 20);
        case 'spin':
            while (true) {
            }
        case 'crash':
            posix_kill(getmypid(), SIGSEGV);
            sleep(10);
        case 'reboot':
            Stoker\Worker::reboot();

            return know($boot);
        case 'own':
            register_shutdown_function(function (): void {
                echo ', and its shutdown function has run';
            });

            return 'the task has run';
        case 'count':
            session_id('planted');
            session_start(['use_cookies' => false, 'save_path' => $_GET['dir']]);
            $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
            header('x-count: ' . $_SESSION['count']);

            return (string) $_SESSION['count'];
    }

    return "$what, {$_SERVER['STOKER_NAME']}";
}, getenv('SAMPLE') ?: null);
