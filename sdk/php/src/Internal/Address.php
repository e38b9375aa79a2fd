<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\InvalidRequest;

/**
 * The address of a server: a unix socket, or a TCP port with or without TLS.
 *
 *     unix:///run/stoker.sock    or only /run/stoker.sock
 *     tcp://10.0.0.5:7007
 *     tls://stoker.internal:7007?ca=/etc/stoker/ca.pem
 *
 * @internal
 */
final class Address
{
    /** The expected form of an address, for error messages. */
    private const FORM = 'expected a path, unix:///path, tcp://host:port or tls://host:port';
    private const TLS_PARAMETERS = ['ca', 'name', 'cert', 'key'];

    /**
     * @param string $text   the original text, for messages
     * @param string $scheme "unix", "tcp" or "tls"
     * @param string $target path of the socket, or "host:port"
     * @param array{ca?: string, name?: string, cert?: string, key?: string} $tls for "tls": file with the accepted CA
     *        certificates (default: those of the system), name that the server's certificate must have, files with the
     *        client's certificate and its key (default: the key is in the certificate's file)
     */
    private function __construct(
        public readonly string $text,
        public readonly string $scheme,
        public readonly string $target,
        public readonly array $tls = [],
    ) {
    }

    /** Whether the server may be on another machine: TCP, with or without TLS. */
    public function isRemote(): bool
    {
        return $this->scheme !== 'unix';
    }

    /**
     * Parses one or more addresses, separated by commas.
     *
     * @param string $where where the text comes from, for error messages
     * @return non-empty-list<self>
     * @throws InvalidRequest
     */
    public static function list(string $text, string $where): array
    {
        if ($text !== '' && !strpbrk($text, ',: ')) {
            return [new self($text, 'unix', $text)]; // Fast path for the usual case, a plain path.
        }
        $addresses = [];
        foreach (explode(',', $text) as $one) {
            try {
                $addresses[] = self::parse(trim($one));
            } catch (InvalidRequest $e) {
                throw new InvalidRequest('invalid address "' . trim($one) . "\" in $where: {$e->getMessage()}");
            }
        }

        return $addresses;
    }

    /**
     * The name of the environment variable with the server's address; null if none is set.
     *
     * In a process that Stoker started, and in its children, the local server takes precedence.
     */
    public static function variable(): ?string
    {
        $names = getenv('STOKER_WORKER') === false ? ['STOKER_URL', 'STOKER_SOCKET'] : ['STOKER_SOCKET', 'STOKER_URL'];
        foreach ($names as $name) {
            if ((string) getenv($name) !== '') {
                return $name;
            }
        }

        return null;
    }

    /** @throws InvalidRequest */
    private static function parse(string $text): self
    {
        $at = strpos($text, '://');
        if ($at === false) {
            return $text === '' ? throw new InvalidRequest('it is empty: ' . self::FORM) : new self($text, 'unix', $text);
        }
        $scheme = substr($text, 0, $at);
        [$target, $query] = explode('?', substr($text, $at + 3), 2) + ['', ''];
        if ($scheme === 'unix') {
            $target !== '' || throw new InvalidRequest('the path is missing: ' . self::FORM);
            $query === '' || throw new InvalidRequest('a unix socket has no parameters: remove the "?" and everything after it');

            return new self($text, $scheme, $target);
        }
        if ($scheme !== 'tcp' && $scheme !== 'tls') {
            throw new InvalidRequest("unknown scheme \"$scheme\": " . self::FORM);
        }

        return new self($text, $scheme, self::hostAndPort(rtrim($target, '/'), $scheme), self::parameters($query, $scheme));
    }

    /** @throws InvalidRequest */
    private static function hostAndPort(string $target, string $scheme): string
    {
        if (str_contains($target, '@')) {
            throw new InvalidRequest('it contains a user or password: pass the token with STOKER_TOKEN or the parameter $token');
        }
        if (!preg_match('~^(\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\]|[^\s:/\[\]]+)(?::(.*))?$~D', $target, $part)) {
            throw new InvalidRequest("invalid host: expected $scheme://host:port, with an IPv6 address in brackets, such as $scheme://[::1]:7007");
        }
        $port = $part[2] ?? '';
        if ($port === '') {
            throw new InvalidRequest("the port is missing: expected $scheme://host:port, such as $scheme://{$part[1]}:7007");
        }
        if (preg_match('/^\d+$/D', $port) !== 1 || strlen($port) > 5 || (int) $port < 1 || (int) $port > 65535) {
            throw new InvalidRequest("invalid port \"$port\": expected 1 to 65535");
        }

        return $target;
    }

    /**
     * @return array<string, string>
     * @throws InvalidRequest
     */
    private static function parameters(string $query, string $scheme): array
    {
        $found = [];
        foreach ($query === '' ? [] : explode('&', $query) as $pair) {
            [$name, $value] = explode('=', $pair, 2) + ['', ''];
            $value = rawurldecode($value);
            if (!in_array($name, self::TLS_PARAMETERS, true)) {
                throw new InvalidRequest("unknown parameter \"$name\": expected any of " . implode(', ', self::TLS_PARAMETERS));
            }
            $scheme === 'tls' || throw new InvalidRequest("the parameter \"$name\" is only for TLS: use tls:// instead of tcp://, or remove it");
            $value !== '' || throw new InvalidRequest("the parameter \"$name\" has no value");
            !isset($found[$name]) || throw new InvalidRequest("the parameter \"$name\" is given twice");
            $found[$name] = $value;
        }
        if (isset($found['key']) && !isset($found['cert'])) {
            throw new InvalidRequest('the parameter "cert" is missing: "key" needs it, with the file of the client certificate');
        }

        return $found;
    }

    /** The host of a TCP address; an IPv6 address without brackets. */
    public function host(): string
    {
        return trim(substr($this->target, 0, (int) strrpos($this->target, ':')), '[]');
    }
}
