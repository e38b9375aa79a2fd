<?php

// The front controller; also the program of a call, whose payload is the query.

require dirname(__DIR__) . '/probe.php';

if (PHP_SAPI === 'cli') {
    $query = json_decode(stream_get_contents(STDIN) ?: '', true) ?? [];
} else {
    $query = $_GET;
    header('content-type: text/plain; charset=UTF-8');
}
echo Lab\answer($query);
