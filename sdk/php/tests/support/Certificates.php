<?php

declare(strict_types=1);

namespace Stoker\Tests;

/** Certificates for fake servers, made once per run of the tests in a directory that is removed at its end. */
final class Certificates
{
    private static ?string $dir = null;
    private static \OpenSSLCertificate $ca;
    private static \OpenSSLAsymmetricKey $caKey;

    /** Path of the certificate of the CA that has signed all others, except those of unknown(). */
    public static function ca(): string
    {
        return self::dir() . '/ca.pem';
    }

    /** Path of a certificate and its key in one file, for these names, such as "DNS:localhost,IP:127.0.0.1". */
    public static function server(string $names = 'DNS:localhost,IP:127.0.0.1,IP:::1', int $days = 2): string
    {
        return self::make('server', $names, $days);
    }

    /** A certificate that has expired. */
    public static function expired(): string
    {
        return self::server(days: 0);
    }

    /** A certificate that no CA has signed. */
    public static function unknown(): string
    {
        return self::make('unknown', 'DNS:localhost,IP:127.0.0.1', 2, false);
    }

    private static function make(string $cn, string $names, int $days, bool $isSigned = true): string
    {
        $path = self::dir() . '/' . md5("$cn $names $days") . '.pem';
        if (!is_file($path)) {
            $options = self::options($names);
            $key = openssl_pkey_new($options);
            $request = openssl_csr_new(['commonName' => $cn], $key, $options);
            $signed = openssl_csr_sign($request, $isSigned ? self::$ca : null, $isSigned ? self::$caKey : $key, $days, $options, random_int(2, PHP_INT_MAX));
            openssl_x509_export($signed, $certificate);
            openssl_pkey_export($key, $private, null, $options);
            file_put_contents($path, $certificate . $private);
        }

        return $path;
    }

    /** @return array<string, mixed> options of openssl_csr_sign(); without names for a CA */
    private static function options(?string $names): array
    {
        $config = self::$dir . '/' . md5((string) $names) . '.cnf';
        file_put_contents($config, "[req]\ndistinguished_name=dn\n[dn]\n[x]\n"
            . ($names === null ? "basicConstraints=critical,CA:TRUE\n" : "subjectAltName=$names\n"));

        return [
            'config' => $config, 'x509_extensions' => 'x', 'digest_alg' => 'sha256',
            'private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1', 'private_key_bits' => 384,
        ];
    }

    private static function dir(): string
    {
        if (self::$dir === null) {
            self::$dir = sprintf('%s/stoker-php-tls-%d', sys_get_temp_dir(), getmypid());
            mkdir(self::$dir, 0700);
            $owner = getmypid();
            register_shutdown_function(static function () use ($owner): void {
                if ($owner === getmypid()) {
                    array_map('unlink', glob(self::$dir . '/*'));
                    rmdir(self::$dir);
                }
            });
            $options = self::options(null);
            self::$caKey = openssl_pkey_new($options);
            $request = openssl_csr_new(['commonName' => 'Test CA'], self::$caKey, $options);
            self::$ca = openssl_csr_sign($request, null, self::$caKey, 2, $options, 1);
            openssl_x509_export_to_file(self::$ca, self::$dir . '/ca.pem');
        }

        return self::$dir;
    }
}
