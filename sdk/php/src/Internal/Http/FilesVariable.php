<?php

declare(strict_types=1);

namespace Stoker\Internal\Http;

use Stoker\Http\UploadedFile;

/** Builds $_FILES, in which the nesting of a name comes after the property: $_FILES["a"]["name"]["b"]. @internal */
final class FilesVariable
{
    /**
     * @param array<array-key, mixed> $files as Request::files()
     * @return array<array-key, array<string, mixed>>
     */
    public static function of(array $files): array
    {
        return array_map(static fn (array|UploadedFile $file): array => [
            'name' => self::property($file, static fn (UploadedFile $one) => $one->name),
            'full_path' => self::property($file, static fn (UploadedFile $one) => $one->fullPath),
            'type' => self::property($file, static fn (UploadedFile $one) => $one->type),
            'tmp_name' => self::property($file, static fn (UploadedFile $one) => $one->path),
            'error' => self::property($file, static fn (UploadedFile $one) => $one->error),
            'size' => self::property($file, static fn (UploadedFile $one) => $one->size),
        ], $files);
    }

    private static function property(array|UploadedFile $file, callable $get): mixed
    {
        return $file instanceof UploadedFile ? $get($file) : array_map(static fn ($one) => self::property($one, $get), $file);
    }
}
