<?php

declare(strict_types=1);

namespace Stoker\Internal;

/** Explains, based on PHP's warnings, why a TLS connection failed and what to do about it. @internal */
final class TlsFailure
{
    /** TLS alerts with which a server rejects a client certificate. */
    private const REJECTED = '/alert (bad certificate|unsupported certificate|certificate revoked|certificate expired|certificate unknown|unknown ca|access denied|decrypt error)/';

    /**
     * @param int $until hrtime() until which the server's certificate may be fetched for the explanation
     * @return array{string, bool} the explanation, and whether another attempt fails in the same way
     */
    public static function explain(Address $address, string $warnings, int $until): array
    {
        $alert = self::ofAlert($address, $warnings);
        if ($alert !== null) {
            return [$alert, true];
        }
        if (preg_match('/wrong version number|unknown protocol|http request|packet length too long|record layer failure/', $warnings)) {
            return ['the server does not use TLS on this port: use tcp://, or set certificate and key in [listen] on the server', true];
        }
        if (preg_match('/protocol version|unsupported protocol|no protocols available/', $warnings)) {
            return ['the server supports neither TLS 1.2 nor TLS 1.3', true];
        }
        if (str_contains($warnings, 'did not match expected') || str_contains($warnings, 'Unable to locate peer certificate CN')) {
            $name = $address->tls['name'] ?? $address->host();

            return ["the server's certificate is not for \"$name\"" . self::namesOf($address, $until) . ': use a host name that the certificate contains, or add ?name=NAME', true];
        }
        if (str_contains($warnings, 'certificate verify failed')) {
            return [self::explainUnverified($address, $until), true];
        }
        if ($warnings === '' || str_contains($warnings, 'unexpected eof') || str_contains($warnings, 'reset by peer')) {
            return ['the server closed the connection during the TLS handshake: if this is not a TLS port, use tcp://', false];
        }

        return ['the TLS handshake failed: ' . self::plain($warnings), false];
    }

    /**
     * Explains a TLS alert with which the server rejected this client. With TLS 1.3 it arrives after the handshake, in the
     * first read.
     *
     * @return string|null null if the warnings contain no such alert
     */
    public static function ofAlert(Address $address, string $warnings): ?string
    {
        $cert = $address->tls['cert'] ?? null;
        if (str_contains($warnings, 'certificate required') || $cert === null && str_contains($warnings, 'alert handshake failure')) {
            return 'the server requires a client certificate: add ?cert=FILE&key=FILE';
        }
        if ($cert !== null && preg_match(self::REJECTED, $warnings, $alert)) {
            return "the server rejected the client certificate in \"$cert\" ({$alert[1]}): use one that is valid and signed by the server's client CA";
        }

        return null;
    }

    /** Finds out why the server's certificate could not be verified, because PHP does not report the reason. */
    private static function explainUnverified(Address $address, int $until): string
    {
        $now = time();
        $clock = gmdate('Y-m-d H:i:s', $now) . ' UTC';
        foreach (self::chain($address, $until) as $one) {
            $name = $one['subject']['CN'] ?? '(no name)';
            $name = is_array($name) ? implode(', ', $name) : $name;
            if ($one['validTo_time_t'] <= $now) {
                return sprintf('the certificate "%s" expired at %s UTC, and the clock of this machine is at %s: renew the certificate, or correct the clock', $name, gmdate('Y-m-d H:i:s', $one['validTo_time_t']), $clock);
            }
            if ($one['validFrom_time_t'] > $now) {
                return sprintf('the certificate "%s" is not valid before %s UTC, and the clock of this machine is at %s: correct the clock', $name, gmdate('Y-m-d H:i:s', $one['validFrom_time_t']), $clock);
            }
        }
        $ca = $address->tls['ca'] ?? null;

        return $ca === null
            ? 'the server\'s certificate is not signed by a CA that this system trusts: add ?ca=FILE with the certificate of its CA'
            : "the server's certificate is not signed by a CA in \"$ca\": correct the parameter \"ca\"";
    }

    /** The names in the server's certificate, for the message. */
    private static function namesOf(Address $address, int $until): string
    {
        $names = self::chain($address, $until)[0]['extensions']['subjectAltName'] ?? '';

        return $names === '' ? '' : " but for $names";
    }

    /**
     * Fetches the certificates that the server presents, without verifying them. No data is sent over this connection.
     *
     * @return list<array<string, mixed>> as openssl_x509_parse() returns them; empty if they cannot be fetched
     */
    private static function chain(Address $address, int $until): array
    {
        $options = ['verify_peer' => false, 'verify_peer_name' => false, 'capture_peer_cert_chain' => true] + Tls::options($address);
        set_error_handler(static fn (): bool => true);
        try {
            $left = max(0.001, ($until - hrtime(true)) / 1e9);
            $stream = stream_socket_client("tcp://{$address->target}", $errno, $why, $left, STREAM_CLIENT_CONNECT, stream_context_create(['ssl' => $options]));
            if ($stream === false || Tls::handshake($stream, $until, $warnings) !== true) {
                return [];
            }
            $chain = stream_context_get_options($stream)['ssl']['peer_certificate_chain'] ?? [];
            fclose($stream);

            return array_values(array_filter(array_map(openssl_x509_parse(...), $chain), 'is_array'));
        } finally {
            restore_error_handler();
        }
    }

    /** The warnings in one line, without PHP's function names and OpenSSL's error codes. */
    private static function plain(string $warnings): string
    {
        $text = preg_replace(['/^\w+\(\): /m', '/SSL operation failed with code \d+\. OpenSSL Error messages:\s*/', '/error:[0-9A-F]+:SSL routines:\w*:/'], '', trim($warnings));

        return preg_replace('/\s*\n\s*/', '; ', $text);
    }
}
