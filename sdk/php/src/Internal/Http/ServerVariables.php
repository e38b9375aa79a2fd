<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\Request;

/** Builds the variables of $_SERVER for a request, with the names of CGI. @internal */
final class ServerVariables
{
    /** @return array<string, string|int|float> */
    public static function of(Request $request): array
    {
        $query = $request->queryString();
        $now = microtime(true);
        $script = self::script($request);
        $variables = [
            'REQUEST_METHOD' => $request->method(),
            'REQUEST_URI' => $request->path() . ($query === '' ? '' : "?$query"),
            'QUERY_STRING' => $query,
            'REQUEST_SCHEME' => $request->scheme(),
            'SERVER_PROTOCOL' => 'HTTP/' . $request->protocolVersion(),
            'SERVER_NAME' => $request->host(),
            'SERVER_PORT' => (string) $request->port(),
            'SERVER_SOFTWARE' => 'stoker',
            'GATEWAY_INTERFACE' => 'CGI/1.1',
            'REMOTE_ADDR' => $request->clientAddress() ?? '',
            'REMOTE_PORT' => (string) $request->clientPort(),
            'SCRIPT_NAME' => $script,
            'PHP_SELF' => $script,
            'REQUEST_TIME' => (int) $now,
            'REQUEST_TIME_FLOAT' => $now,
        ] + array_filter([
            'HTTPS' => $request->scheme() === 'https' ? 'on' : null,
            'SCRIPT_FILENAME' => $request->script(),
            'DOCUMENT_ROOT' => $request->documentRoot(),
        ]);

        return $variables + self::fields($request) + self::login((string) $request->header('authorization'));
    }

    /** @return array<string, string> */
    private static function fields(Request $request): array
    {
        $variables = [];
        foreach ($request->headers() as $name => $_) {
            $name = (string) $name;
            // A name with "_" would be taken for the one with "-", which a proxy may have checked. HTTP_PROXY is a
            // variable of programs for outgoing requests.
            if (str_contains($name, '_') || $name === 'proxy') {
                continue;
            }
            $variable = strtoupper(strtr($name, '-', '_'));
            $isPlain = $variable === 'CONTENT_TYPE' || $variable === 'CONTENT_LENGTH';
            $variables[$isPlain ? $variable : "HTTP_$variable"] = (string) $request->header($name);
        }

        return $variables;
    }

    /** @return array<string, string> the variables that PHP derives from an `authorization` field */
    private static function login(string $authorization): array
    {
        [$scheme, $rest] = explode(' ', $authorization, 2) + ['', ''];
        if (strcasecmp($scheme, 'digest') === 0) {
            return ['PHP_AUTH_DIGEST' => $rest];
        }
        $pair = strcasecmp($scheme, 'basic') === 0 ? (string) base64_decode($rest, true) : '';

        return str_contains($pair, ':') ? array_combine(['PHP_AUTH_USER', 'PHP_AUTH_PW'], explode(':', $pair, 2)) : [];
    }

    /** The path of the front controller below the document root, such as "/index.php". */
    private static function script(Request $request): string
    {
        [$script, $root] = [$request->script(), rtrim((string) $request->documentRoot(), '/')];
        if ($script === null) {
            return '/index.php';
        }

        return $root !== '' && str_starts_with($script, "$root/") ? substr($script, strlen($root)) : '/' . basename($script);
    }
}
