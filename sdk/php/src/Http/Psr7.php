<?php

declare(strict_types=1);

namespace Stoker\Http;

use Psr\Http\Message\ServerRequestFactoryInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Message\StreamFactoryInterface;
use Psr\Http\Message\UploadedFileFactoryInterface;
use Psr\Http\Message\UploadedFileInterface;
use Stoker\Internal\Http\Form;
use Stoker\Internal\Http\ServerVariables;

/**
 * Makes requests of PSR-7 with the factories (PSR-17) of the application's own library:
 *
 *     $psr7 = new Psr7($factory, $factory, $factory);
 *     $worker->onRequest(fn (Request $request) => $app->handle($psr7->request($request)));
 *
 * The attribute "stoker" of the request is the Request.
 */
final class Psr7
{
    public function __construct(
        private ServerRequestFactoryInterface $requests,
        private StreamFactoryInterface $streams,
        private UploadedFileFactoryInterface $uploads,
    ) {
    }

    /**
     * The request, with server parameters, query, cookies, body, and, if the body is a form, its fields and files.
     *
     * @throws BadRequest the request is malformed, or the library rejects its target or a header
     */
    public function request(Request $request): ServerRequestInterface
    {
        try {
            $made = $this->requests->createServerRequest($request->method(), $request->uri(), ServerVariables::of($request));
            foreach ($request->headers() as $name => $values) {
                $made = $made->withHeader((string) $name, $values);
            }
        } catch (\InvalidArgumentException $e) {
            throw new BadRequest('invalid request: ' . $e->getMessage(), 400, $e);
        }
        $file = $request->bodyFile();
        $made = $made
            ->withProtocolVersion($request->protocolVersion())
            ->withQueryParams($request->query())
            ->withCookieParams($request->cookies())
            ->withBody($file === null ? $this->streams->createStream($request->body()) : $this->streams->createStreamFromFile($file))
            ->withAttribute('stoker', $request);
        if (Form::isForm((string) $request->header('content-type'))) {
            $made = $made->withParsedBody($request->form())->withUploadedFiles(array_map($this->file(...), $request->files()));
        }

        return $made;
    }

    /** @return UploadedFileInterface|array<array-key, mixed> */
    private function file(UploadedFile|array $file): UploadedFileInterface|array
    {
        if (is_array($file)) {
            return array_map($this->file(...), $file);
        }
        $stream = $file->path === '' ? $this->streams->createStream() : $this->streams->createStreamFromFile($file->path);

        return $this->uploads->createUploadedFile($stream, $file->size, $file->error, $file->name, $file->type);
    }
}
