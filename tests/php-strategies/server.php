<?php

// A server of HTTP/1.1 that answers each request in a process of its own: server.php ADDRESS SCRIPT

declare(strict_types=1);

/** Reads a request. What it says is where PHP's own servers put it, except for the body: it is in $GLOBALS['payload']. */
function receive($connection): bool
{
    $line = explode(' ', trim((string) fgets($connection)));
    if (count($line) !== 3) {
        return false; // Stoker has only looked whether this server accepts connections.
    }
    [$_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI']] = $line;
    parse_str((string) parse_url($line[1], PHP_URL_QUERY), $_GET);
    while (($field = trim((string) fgets($connection))) !== '') {
        [$name, $value] = explode(': ', $field, 2);
        $_SERVER['HTTP_' . strtr(strtoupper($name), '-', '_')] = $value;
    }
    $GLOBALS['payload'] = (string) stream_get_contents($connection, (int) $_SERVER['HTTP_CONTENT_LENGTH']);

    return true;
}

/** Answers when the script has ended, however that was. */
function answer($connection): void
{
    $error = error_get_last();
    $output = $error ? $error['message'] : (string) ob_get_contents();
    while (ob_get_level()) {
        ob_end_clean();
    }
    $status = $error ? 500 : (http_response_code() ?: 200);
    $fields = implode("\r\n", [...headers_list(), ...$GLOBALS['fields'] ?? []]);
    fwrite($connection, "HTTP/1.1 $status \r\ncontent-length: " . strlen($output) . "\r\n$fields" . ($fields ? "\r\n" : '') . "\r\n$output");
}

[, $address, $script] = $argv;
pcntl_signal(SIGCHLD, SIG_IGN); // The kernel reaps the processes.
$server = stream_socket_server("unix://$address") ?: exit(1);
while (true) {
    $connection = @stream_socket_accept($server, -1);
    if (!$connection) {
        continue;
    }
    if (pcntl_fork() !== 0) {
        fclose($connection);
        continue;
    }
    fclose($server);
    error_clear_last();
    pcntl_signal(SIGCHLD, SIG_DFL);
    if (!receive($connection)) {
        exit;
    }
    ob_start();
    register_shutdown_function(answer(...), $connection);
    require $script;
    exit;
}
