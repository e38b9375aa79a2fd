<?php

declare(strict_types=1);

namespace Stoker\Internal;

use Stoker\ConnectionRefused;

/**
 * Encrypts a TCP connection with TLS 1.2 or later, and verifies the server's certificate and name. The verification can't
 * be turned off.
 *
 * @internal
 */
final class Tls
{
    private const METHOD = STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT | STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT;

    /**
     * Options of the stream context `ssl`.
     *
     * @return array<string, mixed>
     * @throws ConnectionRefused a file cannot be read, or ext-openssl is missing
     */
    public static function options(Address $address): array
    {
        if (!extension_loaded('openssl')) {
            throw self::refused($address, 'tls:// requires the PHP extension openssl: install it', true);
        }
        foreach (['ca', 'cert', 'key'] as $name) {
            $file = $address->tls[$name] ?? null;
            if ($file !== null && !is_readable($file)) {
                throw self::refused($address, "cannot read the file \"$file\": correct the parameter \"$name\" of the address, or the file's permissions", true);
            }
        }
        $name = $address->tls['name'] ?? $address->host();

        return array_filter([
            'verify_peer' => true,
            'verify_peer_name' => true,
            'peer_name' => $name,
            // SNI permits only DNS names; servers reject an IP address.
            'SNI_enabled' => filter_var($name, FILTER_VALIDATE_IP) === false,
            'crypto_method' => self::METHOD,
            'cafile' => $address->tls['ca'] ?? null,
            'local_cert' => $address->tls['cert'] ?? null,
            'local_pk' => $address->tls['key'] ?? null,
        ], static fn (mixed $value) => $value !== null);
    }

    /**
     * Performs the handshake on a new connection. Does nothing on a persistent one that is already encrypted.
     *
     * @param resource $stream
     * @param int $until hrtime() at which the handshake must be complete
     * @throws ConnectionRefused
     */
    public static function start($stream, Address $address, int $until): void
    {
        if (isset(stream_get_meta_data($stream)['crypto'])) {
            return;
        }
        $done = self::handshake($stream, $until, $warnings);
        if ($done !== true) {
            fclose($stream);
            [$why, $isMisconfigured] = $done === 0
                ? ['the TLS handshake took too long: if this is not a TLS port, use tcp://', false]
                : TlsFailure::explain($address, $warnings, $until);
            throw self::refused($address, $why, $isMisconfigured);
        }
    }

    /**
     * Uses non-blocking mode, because in blocking mode PHP would apply its own time limit instead of $until.
     *
     * @param resource $stream
     * @return bool|int true = encrypted, false = failed, 0 = timed out
     */
    public static function handshake($stream, int $until, ?string &$warnings): bool|int
    {
        $warnings = '';
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            $warnings .= "$message\n";

            return true;
        });
        stream_set_blocking($stream, false);
        try {
            while (($done = stream_socket_enable_crypto($stream, true, self::METHOD)) === 0) {
                $read = [$stream];
                $none = null;
                $micros = intdiv($until - hrtime(true), 1000);
                if ($micros <= 0) {
                    break;
                }
                // If a signal interrupts the wait, the next call simply continues the handshake.
                stream_select($read, $none, $none, intdiv($micros, 1_000_000), $micros % 1_000_000);
            }
        } finally {
            stream_set_blocking($stream, true);
            restore_error_handler();
        }

        return $done;
    }

    public static function refused(Address $address, string $why, bool $isMisconfigured): ConnectionRefused
    {
        $e = new ConnectionRefused("cannot connect to Stoker at {$address->text}: $why");
        $e->isMisconfigured = $isMisconfigured;

        return $e;
    }
}
