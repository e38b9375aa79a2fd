<?php

declare(strict_types=1);

namespace Stoker\Http;

use Stoker\Internal\Http\ServerVariables;
use Symfony\Component\HttpFoundation\File\UploadedFile as SymfonyFile;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;

/**
 * Makes requests of Symfony's HttpFoundation:
 *
 *     $worker->onRequest(fn (Request $request) => $app->handle(HttpFoundation::request($request)));
 *
 * Client address, scheme and host are those that Stoker has determined, so the application needs no trusted proxies:
 * configure them in Stoker. Otherwise clients that reach Stoker directly could set their address with `x-forwarded-for`.
 */
final class HttpFoundation
{
    /**
     * The request, with server variables, query, cookies, body, and, if the body is a form, its fields and files. Its
     * attribute "stoker" is the Request.
     *
     * @template R of SymfonyRequest
     * @param class-string<R>           $class     class of the request, with the constructor of Symfony's
     * @param class-string<SymfonyFile> $fileClass class of uploaded files, with the constructor of Symfony's
     * @return R
     * @throws BadRequest the request is malformed
     */
    public static function request(
        Request $request,
        string $class = SymfonyRequest::class,
        string $fileClass = SymfonyFile::class,
    ): SymfonyRequest {
        // As a stream, a body in a file is read only if the application asks for the content.
        $content = $request->bodyFile() === null ? $request->body() : $request->bodyStream();

        return new $class(
            $request->query(),
            $request->form(),
            ['stoker' => $request],
            $request->cookies(),
            self::files($request->files(), $fileClass),
            ServerVariables::of($request),
            $content,
        );
    }

    /**
     * @param array<array-key, mixed> $files
     * @return array<array-key, mixed>
     */
    private static function files(array $files, string $class): array
    {
        return array_map(static fn (array|UploadedFile $file) => match (true) {
            is_array($file) => self::files($file, $class),
            // HttpFoundation expects it as PHP describes it, and makes null of it.
            $file->error === UPLOAD_ERR_NO_FILE => ['name' => '', 'type' => '', 'tmp_name' => '', 'error' => UPLOAD_ERR_NO_FILE, 'size' => 0],
            // The last argument: the file can be moved although PHP has not received it.
            default => new $class($file->path, $file->name, $file->type === '' ? null : $file->type, $file->error, true),
        }, $files);
    }
}
