<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** Sends requests to the site "shop" of a real server, as a browser does. */
final class Site
{
    /** Lines of stoker.toml for the site, which the pool "app" answers. */
    public const CONFIG = "\n[site.shop]\npool = \"app\"\nlisten = [\"127.0.0.1:0\"]\n";

    /** "http://127.0.0.1:PORT" */
    public readonly string $url;

    public function __construct(Server $server)
    {
        for ($until = microtime(true) + 20; !preg_match('~gateway sites: listening on (http://[\d.:]+)~', $server->log(), $found); usleep(1000)) {
            microtime(true) < $until or throw new Failure("the site does not listen:\n" . $server->log());
        }
        $this->url = $found[1];
    }

    /**
     * @param list<string> $headers
     * @return array{int, string, list<string>} status, body, and the lines of the header
     */
    public function request(string $method, string $path, array $headers = [], string $body = ''): array
    {
        $body = @file_get_contents($this->url . $path, false, stream_context_create(['http' => [
            'method' => $method,
            'header' => [...$headers, 'Connection: close'],
            'content' => $body,
            'protocol_version' => 1.1,
            'ignore_errors' => true,
            'follow_location' => 0,
            'timeout' => 20,
        ]]));
        $body === false and throw new Failure("no answer to $method $path");

        return [(int) explode(' ', $http_response_header[0])[1], $body, array_map('strtolower', $http_response_header)];
    }
}
