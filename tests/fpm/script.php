<?php
// A web request of php-fpm for tests/fpm/load.py: makes calls on a persistent connection, and prints what it got. The query
// string has a number that no other request has, and how the request ends.

require __DIR__ . '/../../sdk/php/src/autoload.php';

parse_str($_SERVER['QUERY_STRING'], $query);
['n' => $n, 'how' => $how] = $query;
$stoker = Stoker\Client::connect(getenv('STOKER_URL'), persistent: true, timeout: 10.0, connectTimeout: 5.0, reconnectFor: 5.0);
switch ($how) {
    case 'call':
        echo $stoker->call('fpm.echo', $n, idempotent: true);
        break;
    case 'many':
        echo implode(',', array_unique($stoker->callAll(array_fill(0, 5, ['fpm.echo', $n]), idempotent: true)));
        break;
    case 'exit': // With an answer on its way.
        $stoker->callAsync('fpm.echo', "late $n");
        $stoker->notify('fpm.echo', 'x');
        echo $n;
        exit;
    case 'throw':
        $stoker->callAsync('fpm.slow', "late $n");
        echo $stoker->call('fpm.echo', $n, idempotent: true);
        throw new RuntimeException('on purpose');
    case 'timeout':
        try {
            $stoker->call('fpm.slow', "late $n", timeout: 0.01);
        } catch (Stoker\DeadlineExceeded | Stoker\Overloaded) {
        }
        echo $n;
}
