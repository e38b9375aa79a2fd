<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\BadRequest;
use Stoker\Http\Request;
use Stoker\Http\UploadedFile;

/** The fields and files of a form that a request sent in its body. @internal */
final class Form
{
    /**
     * @param array<array-key, mixed> $fields values by name, nested as in $_POST
     * @param array<array-key, mixed> $files  UploadedFile by name, nested in the same way
     */
    private function __construct(public readonly array $fields = [], public readonly array $files = [])
    {
    }

    /** @throws BadRequest the form is malformed or exceeds a limit */
    public static function of(Request $request, Uploads $uploads): self
    {
        $type = (string) $request->header('content-type');

        return match (self::mediaType($type)) {
            'application/x-www-form-urlencoded' => self::urlencoded($request),
            'multipart/form-data' => self::multipart($request, PartHeader::parameter($type, 'boundary') ?? '', $uploads),
            default => new self(),
        };
    }

    /** Whether a content type denotes a form. */
    public static function isForm(string $contentType): bool
    {
        return in_array(self::mediaType($contentType), ['application/x-www-form-urlencoded', 'multipart/form-data'], true);
    }

    private static function mediaType(string $contentType): string
    {
        return strtolower(trim(strtok($contentType, ';') ?: ''));
    }

    private static function urlencoded(Request $request): self
    {
        // The size is checked before a body file is read into memory.
        BodyLimits::checkFormSize($request->bodySize());

        return new self(Variables::parse($request->body()));
    }

    private static function multipart(Request $request, string $boundary, Uploads $uploads): self
    {
        $stream = $request->bodyStream();
        try {
            $parsed = new Multipart($stream, $boundary, $uploads);
        } catch (\Throwable $e) {
            $uploads->remove();
            throw $e;
        } finally {
            fclose($stream);
        }
        $pairs = $files = [];
        foreach ($parsed->files as $n => [$name, $file]) {
            $pairs[] = [$name, (string) $n];
            $files[] = $file;
        }
        // The names are expanded with the files' numbers as values, which are then replaced by the files.
        $nested = Variables::nest($pairs);
        array_walk_recursive($nested, static function (string|UploadedFile &$value) use ($files): void {
            $value = $files[(int) $value];
        });

        return new self(Variables::nest($parsed->fields), $nested);
    }
}
