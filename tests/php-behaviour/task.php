<?php
// Runs a call or a job: the payload says what it does.
[$what, $argument] = explode(' ', stoker_payload() . ' ', 2);
$argument = rtrim($argument);
switch ($what) {
    case 'know':
        echo json_encode([
            'payload' => file_get_contents('php://input'),
            'words' => array_slice($argv, 1),
            'name' => $_SERVER['STOKER_NAME'],
            'id' => getenv('STOKER_ID'),
            'attempt' => getenv('STOKER_ATTEMPT'),
            'streams' => is_resource(STDIN) && is_resource(STDOUT) && is_resource(STDERR),
            'directory' => getcwd(),
            'sapi' => PHP_SAPI,
            'method' => $_SERVER['REQUEST_METHOD'] ?? null,
        ]);
        break;
    case 'leak':
        require dirname(__DIR__) . "/http-behaviour/leak-$argument.php";
        break;
    case 'answer':
        echo "printed\n";
        stoker_answer('given');
        echo "noted\n";
        break;
    case 'throw':
        throw new DomainException('no such thing');
    case 'exit':
        exit((int) $argument);
    case 'greedy':
        ini_set('memory_limit', '16M');
        str_repeat('x', 200 << 20);
        break;
    case 'spin':
        file_put_contents($argument, getmypid());
        while (true) {
        }
    case 'sleep':
        register_shutdown_function(fn () => touch("$argument.over"));
        file_put_contents($argument, getmypid());
        sleep(1000);
        break;
    case 'crash':
        posix_kill(getmypid(), SIGSEGV);
        sleep(10);
        break;
    case 'fork':
        if (($child = pcntl_fork()) === 0) {
            echo 'the child';
            exit(7);
        }
        pcntl_waitpid($child, $status);
        echo 'the child exited with ', pcntl_wexitstatus($status);
        break;
    case 'flood':
        while (true) {
            echo str_repeat('x', 65536);
        }
    case 'finish':
        echo 'answered';
        fastcgi_finish_request();
        echo 'dropped';
        file_put_contents($argument, 'went on');
        break;
    case 'large':
        echo str_repeat('x', (int) $argument);
        break;
    default:
        echo "$what, {$_SERVER['STOKER_NAME']}";
}
